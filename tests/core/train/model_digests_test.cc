// SPDX-License-Identifier: Apache-2.0
#include "core/train/model_digests.h"

#include <gtest/gtest.h>

#include <fstream>

#include "core/base/file.h"
#include "core/base/sha256.h"
#include "tests/core/scratch_folder.h"

namespace mpsd::train {
namespace {

namespace fs = std::filesystem;
using testing_support::FreshFolder;

const std::atomic<bool> kGoOn{false}, kStop{true};

TEST(HashModelTest, DigestsModelFilesAndRemembersThem) {
  const auto model = FreshFolder("hash_model");
  const auto cache = FreshFolder("hash_cache") / "digests.json";
  std::ofstream(model / "config.json") << "{}";
  std::ofstream(model / "model.safetensors") << "weights";
  std::ofstream(model / "README.md") << "not part of it";
  auto digests = *HashModel(model, cache, kGoOn);
  EXPECT_EQ(digests.size(), 2u);
  EXPECT_EQ(digests["model.safetensors"], base::Sha256Hex("weights"));
  // A remembered digest is used for as long as the file is untouched…
  std::string text = *base::ReadFile(cache);
  const size_t at = text.find(digests["config.json"]);
  ASSERT_NE(at, std::string::npos);
  text.replace(at, 64, std::string(64, 'e'));
  std::ofstream(cache) << text;
  EXPECT_EQ((*HashModel(model, cache, kGoOn))["config.json"],
            std::string(64, 'e'));
  // … and no longer.
  std::ofstream(model / "config.json") << "{\"changed\": 1}";
  EXPECT_EQ((*HashModel(model, cache, kGoOn))["config.json"],
            base::Sha256Hex("{\"changed\": 1}"));
}

TEST(HashModelTest, ABrokenCacheIsNoMoreThanAnEmptyOne) {
  const auto model = FreshFolder("hash_model_2");
  std::ofstream(model / "config.json") << "{}";
  const auto cache = FreshFolder("hash_cache_2") / "digests.json";
  std::ofstream(cache) << "[1,";
  EXPECT_EQ((*HashModel(model, cache, kGoOn))["config.json"],
            base::Sha256Hex("{}"));
  EXPECT_FALSE(HashModel(model / "none", cache, kGoOn).ok());
}

TEST(HashModelTest, StopsWhereItIsAskedTo) {
  const fs::path model = FreshFolder("stop_model");
  const fs::path cache = FreshFolder("stop_cache") / "digests.json";
  std::ofstream(model / "config.json") << "{}";
  EXPECT_TRUE(absl::IsCancelled(HashModel(model, cache, kStop).status()));
  EXPECT_FALSE(fs::exists(cache));
}

TEST(ModelDigestsTest, AreThoseOfTheFolder) {
  const fs::path model = FreshFolder("ahead_model");
  const fs::path cache = FreshFolder("ahead_cache") / "digests.json";
  // More than is hashed at a time.
  const std::string weights(20 << 20, 'w');
  std::ofstream(model / "model.safetensors") << weights;
  std::ofstream(model / "config.json") << "{}";
  std::ofstream(model / "README.md") << "no part of it";
  for (int i = 0; i < 2; ++i) {  // computed, then known
    ModelDigests ahead(model, cache);
    const auto digests = ahead.Get();
    ASSERT_TRUE(digests.ok()) << digests.status();
    const Digests expected = {{"config.json", base::Sha256Hex("{}")},
                              {"model.safetensors", base::Sha256Hex(weights)}};
    EXPECT_EQ(*digests, expected);
    EXPECT_EQ(*ahead.Get(), expected);  // as often as one likes
  }
}

TEST(ModelDigestsTest, AFolderThatIsNotThereIsSaidByGet) {
  ModelDigests ahead(FreshFolder("none") / "none", "");
  EXPECT_FALSE(ahead.Get().ok());
}

TEST(ModelDigestsTest, NobodyNeedAskForThem) {
  const fs::path model = FreshFolder("unasked");
  std::ofstream(model / "model.safetensors") << std::string(64 << 20, 'w');
  const fs::path cache = FreshFolder("unasked_cache") / "digests.json";
  ModelDigests ahead(model, cache);
}

}  // namespace
}  // namespace mpsd::train
