// SPDX-License-Identifier: Apache-2.0
#include "core/worker/merge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "nlohmann/json.hpp"
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
                            (golden_ / "model").string(), result_.string(),
                            /*dtype=*/""};
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

// As results of a job that asked for its model by its id name it.
TEST_F(MergeVerbTest, AnIdIsFoundAtItsRevision) {
  const fs::path folder = testing_support::FreshFolder("merge_verb_id");
  const fs::path repository = folder / "hub" / "models--me--tiny";
  fs::create_directories(repository / "snapshots");
  fs::create_directories(repository / "refs");
  fs::copy(golden_ / "model", repository / "snapshots" / "abc123");
  // Of refs/main the adapter knows nothing.
  fs::copy(golden_.parent_path() / "llama2" / "model",
           repository / "snapshots" / "def456");
  std::ofstream(repository / "refs" / "main") << "def456";
  fs::copy(golden_ / "adapter", folder / "adapter");
  const fs::path path = folder / "adapter" / "adapter_config.json";
  auto config = nlohmann::json::parse(std::ifstream(path));
  config["base_model_name_or_path"] = "me/tiny";
  config["revision"] = "abc123";
  std::ofstream(path) << config.dump();
  setenv("HF_HOME", folder.c_str(), 1);
  arguments_.adapter = (folder / "adapter").string();
  arguments_.model.clear();
  EXPECT_EQ(Run(), 0) << err_.str();
  config["revision"] = "000000";
  std::ofstream(path) << config.dump();
  EXPECT_EQ(Run(), 2);
  EXPECT_THAT(err_.str(), HasSubstr("config.json of 000000 in "));
  unsetenv("HF_HOME");
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
