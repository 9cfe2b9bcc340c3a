// SPDX-License-Identifier: Apache-2.0
#include "core/worker/merge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "tests/core/scratch_folder.h"

namespace mpsd::worker {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class MergeVerbTest : public testing::Test {
 protected:
  int Run() { return RunMerge(arguments_, out_, err_); }

  const fs::path golden_ =
      fs::path(MPSD_TEST_SOURCE_DIR) / "tests" / "golden" / "mistral";
  const fs::path result_ =
      testing_support::FreshFolder("merge_verb") / "merged";
  MergeArguments arguments_{(golden_ / "adapter").string(),
                            (golden_ / "model").string(), result_.string()};
  std::ostringstream out_, err_;
};

TEST_F(MergeVerbTest, MergesAndSaysWhatItDid) {
  EXPECT_EQ(Run(), 0) << err_.str();
  EXPECT_THAT(out_.str(), HasSubstr("weights merged"));
  EXPECT_THAT(out_.str(), HasSubstr(result_.string()));
  EXPECT_TRUE(fs::exists(result_ / "model.safetensors"));
}

TEST_F(MergeVerbTest, TheModelIsTheOneThatTheAdapterNames) {
  arguments_.model.clear();  // golden adapters name a folder of their making
  EXPECT_EQ(Run(), 2);
  EXPECT_FALSE(fs::exists(result_));
}

TEST_F(MergeVerbTest, BadArgumentsAreTheUsers) {
  arguments_.dtype = "int3";
  EXPECT_EQ(Run(), 2);
  EXPECT_THAT(err_.str(), HasSubstr("--dtype"));
  arguments_.dtype.clear();
  arguments_.max_shard_size = "large";
  EXPECT_EQ(Run(), 2);
  EXPECT_THAT(err_.str(), HasSubstr("\"large\" is no size"));
}

}  // namespace
}  // namespace mpsd::worker
