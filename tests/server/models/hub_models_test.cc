// SPDX-License-Identifier: Apache-2.0
#include "server/models/hub_models.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"
#include "tests/server/models/hub_cache.h"

namespace mpsd::models {
namespace {

namespace fs = std::filesystem;

class HubModelsTest : public testing::Test {
 protected:
  HubCache cache_;
};

TEST_F(HubModelsTest, ListsWhatJobsFind) {
  cache_.Put("org/b", "c0ffee", "12345");
  cache_.Put("a", "f00d", "123");
  fs::create_directories(cache_.path() / "models--org--empty" / "snapshots");
  fs::create_directories(cache_.path() / "datasets--org--data");
  const auto models = ListHubModels("", 10);
  ASSERT_EQ(models.size(), 2u);
  EXPECT_EQ(models[0].name, "a");
  EXPECT_EQ(models[1].name, "org/b");
  EXPECT_EQ(models[1].revision, "c0ffee");
  EXPECT_EQ(models[1].size_bytes,
            static_cast<int64_t>(sizeof(kTinyConfig) - 1 + 5 + 6))
      << "each blob once, and the ref";
  EXPECT_GT(models[1].create_time, absl::UnixEpoch());
  EXPECT_EQ(ListHubModels("", 1).size(), 1u);
  ASSERT_EQ(ListHubModels("org/b", 1).size(), 1u);
  EXPECT_TRUE(ListHubModels("org/none", 1).empty());
}

TEST_F(HubModelsTest, WithoutACacheThereAreNone) {
  fs::remove_all(cache_.path());
  EXPECT_TRUE(ListHubModels("", 10).empty());
  SweepHubModels();
}

TEST_F(HubModelsTest, ARemovedModelIsGone) {
  cache_.Put("org/b", "c0ffee", "12345");
  fs::create_directories(cache_.path() / ".locks" / "models--org--b");
  const auto models = ListHubModels("", 10);
  ASSERT_EQ(models.size(), 1u);
  const auto freed = RemoveHubModel(models[0]);
  ASSERT_TRUE(freed.ok()) << freed.status();
  EXPECT_EQ(*freed, models[0].size_bytes);
  EXPECT_TRUE(ListHubModels("", 10).empty());
  EXPECT_FALSE(fs::exists(cache_.path() / ".locks" / "models--org--b"));
  EXPECT_TRUE(absl::IsNotFound(RemoveHubModel(models[0]).status()));
}

TEST_F(HubModelsTest, ARemovalThatWasCutOffEndsAtTheNextStart) {
  const fs::path cut = cache_.path() / ".models--org--b.17.1.tmp";
  const fs::path others = cache_.path() / ".other.17.1.tmp";
  fs::create_directories(cut / "blobs");
  fs::create_directories(others);
  cache_.Put("org/b", "c0ffee", "12345");
  SweepHubModels();
  EXPECT_FALSE(fs::exists(cut));
  EXPECT_TRUE(fs::exists(others));
  EXPECT_EQ(ListHubModels("", 10).size(), 1u);
}

}  // namespace
}  // namespace mpsd::models
