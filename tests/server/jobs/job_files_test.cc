// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/job_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "core/base/file.h"

namespace mpsd::jobs {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class DiskJobFilesTest : public testing::Test {
 protected:
  DiskJobFilesTest()
      : state_(fs::path(testing::TempDir()) /
               ("job_files-" + std::to_string(getpid()))),
        files_(state_) {
    fs::create_directories(state_);
    std::ofstream(state_ / "blob") << "row\n";
  }
  ~DiskJobFilesTest() override { fs::remove_all(state_); }

  const fs::path state_;
  DiskJobFiles files_;
};

TEST_F(DiskJobFilesTest, LaysTheFolderOut) {
  EXPECT_EQ(files_.Folder("J"), (state_ / "jobs/J").string());
  EXPECT_EQ(files_.SpecPath("J"), (state_ / "jobs/J/job.json").string());
  EXPECT_EQ(files_.InputPath("J", "a/b"),
            (state_ / "jobs/J/inputs/a/b").string());
  EXPECT_EQ(files_.OutputDir("J"), (state_ / "jobs/J/out").string());
  EXPECT_EQ(files_.LogPath("J"), (state_ / "jobs/J/log").string());
}

TEST_F(DiskJobFilesTest, CreatesSpecAndInputs) {
  const std::string blob = state_ / "blob";
  ASSERT_TRUE(
      files_.Create("J", "{}", {{"train.jsonl", blob}, {"adapter/x", blob}})
          .ok());
  EXPECT_EQ(*base::ReadFile(files_.SpecPath("J")), "{}\n");
  EXPECT_EQ(*base::ReadFile(files_.InputPath("J", "train.jsonl")), "row\n");
  fs::remove(blob);
  EXPECT_EQ(*base::ReadFile(files_.InputPath("J", "adapter/x")), "row\n");
}

TEST_F(DiskJobFilesTest, LeavesNothingOfAFailure) {
  ASSERT_FALSE(
      files_
          .Create("J", "{}",
                  {{"same", state_ / "blob"}, {"same", state_ / "blob"}})
          .ok());
  EXPECT_FALSE(files_.Exists(files_.Folder("J")));
  EXPECT_TRUE(fs::is_empty(state_ / "jobs"));
}

TEST_F(DiskJobFilesTest, RemovesTheFolder) {
  ASSERT_TRUE(files_.Create("J", "{}", {}).ok());
  EXPECT_TRUE(files_.Exists(files_.Folder("J")));
  files_.Remove("J");
  EXPECT_FALSE(files_.Exists(files_.Folder("J")));
}

TEST_F(DiskJobFilesTest, LogLinesAreStampedAndAppended) {
  ASSERT_TRUE(files_.Create("J", "{}", {}).ok());
  files_.AppendLog("J", "one");
  files_.AppendLog("J", "two");
  const std::string log = *base::ReadFile(files_.LogPath("J"));
  EXPECT_THAT(log, testing::ContainsRegex("Z mpsd: one\n.*Z mpsd: two\n$"));
}

TEST_F(DiskJobFilesTest, FindsAModelOrSaysWhyNot) {
  EXPECT_TRUE(
      absl::IsNotFound(files_.FindModel((state_ / "none").string()).status()));
  const fs::path folder = state_ / "model";
  fs::create_directories(folder);
  std::ofstream(folder / "config.json")
      << R"({"architectures": ["T5Model"], "model_type": "t5"})";
  auto unknown = files_.FindModel(folder.string());
  EXPECT_TRUE(absl::IsUnimplemented(unknown.status())) << unknown.status();
  std::ofstream(folder / "config.json") << R"({
      "architectures": ["LlamaForCausalLM"], "model_type": "llama",
      "vocab_size": 32, "hidden_size": 16, "intermediate_size": 32,
      "num_hidden_layers": 1, "num_attention_heads": 2,
      "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
      "hidden_act": "silu"})";
  auto model = files_.FindModel(folder.string());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->folder, folder.string());
  EXPECT_EQ(model->config.hidden_size, 16);
}

}  // namespace
}  // namespace mpsd::jobs
