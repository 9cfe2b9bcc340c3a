// SPDX-License-Identifier: Apache-2.0
#include "client/model_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/client/model_folder.h"

namespace mpsd::client {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class LocalModelTest : public testing::Test {
 protected:
  LocalModelTest()
      : folder_(fs::path(testing::TempDir()) /
                ("model-files-" + std::to_string(getpid()))) {
    fs::remove_all(folder_);
    WriteModelFolder(folder_);
  }
  ~LocalModelTest() override { fs::remove_all(folder_); }

  std::vector<std::string> Paths() {
    const auto model = ReadLocalModel(folder_);
    EXPECT_TRUE(model.ok()) << model.status();
    std::vector<std::string> paths;
    if (!model.ok()) return paths;
    for (const LocalFile& file : model->files) paths.push_back(file.path);
    left_out_ = model->left_out;
    return paths;
  }

  const fs::path folder_;
  std::vector<std::string> left_out_;
};

TEST_F(LocalModelTest, TakesWhatMpsdReadsAndSaysWhatItLeavesOut) {
  WriteText(folder_ / "pytorch_model.bin", "x");
  WriteText(folder_ / "onnx/model.onnx", "x");
  WriteText(folder_ / ".gitattributes", "x");
  WriteText(folder_ / "additional_chat_templates/tool.jinja", "x");
  WriteText(folder_ / "additional_chat_templates/notes.txt", "x");
  EXPECT_THAT(Paths(),
              ElementsAre("additional_chat_templates/tool.jinja", "config.json",
                          "model.safetensors", "tokenizer.json"));
  EXPECT_THAT(left_out_, ElementsAre(".gitattributes", "README.md",
                                     "additional_chat_templates/notes.txt",
                                     "onnx", "pytorch_model.bin"));
}

// Gigabytes that no job would read.
TEST_F(LocalModelTest, TakesTheWeightsOnce) {
  WriteText(folder_ / "model-00001-of-00001.safetensors", Weights(5));
  WriteText(folder_ / "model.fp16.safetensors", Weights(5));
  WriteText(folder_ / "model.safetensors.index.json",
            R"({"weight_map": {"a": "model-00001-of-00001.safetensors"}})");
  EXPECT_THAT(Paths(), ElementsAre("config.json", "model.safetensors",
                                   "tokenizer.json"));
  fs::remove(folder_ / "model.safetensors");
  EXPECT_THAT(Paths(),
              ElementsAre("config.json", "model-00001-of-00001.safetensors",
                          "model.safetensors.index.json", "tokenizer.json"));
}

TEST_F(LocalModelTest, FollowsLinksAsASnapshotHasThem) {
  const fs::path blob = folder_.string() + "-blob";
  WriteText(blob, Weights(7));
  fs::remove(folder_ / "model.safetensors");
  fs::create_symlink(blob, folder_ / "model.safetensors");
  EXPECT_THAT(Paths(), ElementsAre("config.json", "model.safetensors",
                                   "tokenizer.json"));
  fs::remove(blob);
}

TEST_F(LocalModelTest, WhatMpsdWouldRefuseIsSaidHere) {
  WriteText(folder_ / "model.safetensors", Weights(100).substr(0, 90));
  const auto cut = ReadLocalModel(folder_);
  EXPECT_THAT(std::string(cut.status().message()),
              HasSubstr("model.safetensors: "));
  EXPECT_THAT(std::string(cut.status().message()), HasSubstr(folder_.string()));
  fs::remove(folder_ / "config.json");
  EXPECT_TRUE(absl::IsNotFound(ReadLocalModel(folder_).status()));
  EXPECT_TRUE(absl::IsNotFound(ReadLocalModel(folder_ / "none").status()));
}

}  // namespace
}  // namespace mpsd::client
