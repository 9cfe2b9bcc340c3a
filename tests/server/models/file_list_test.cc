// SPDX-License-Identifier: Apache-2.0
#include "server/models/file_list.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/limits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mpsd::models {
namespace {

using ::testing::HasSubstr;

ModelFile File(const std::string& path) {
  return {path, std::string(64, 'a'), 1};
}

std::string Problem(const std::vector<ModelFile>& files) {
  const absl::Status status = CheckFileList(files);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

TEST(FileList, AModelsFiles) {
  EXPECT_TRUE(CheckFileList({File("model.safetensors"), File("config.json"),
                             File("tokenizer.json")})
                  .ok());
}

TEST(FileList, NeedsAConfig) {
  EXPECT_THAT(Problem({File("model.safetensors")}),
              HasSubstr("config.json is not among them"));
  EXPECT_THAT(Problem({}), HasSubstr("config.json"));
}

TEST(FileList, WhatNoModelHas) {
  for (const char* path : {"../../mpsd.db", "/etc/passwd", "a.py", "",
                           "model\n.safetensors", "caf\xc3\xa9.safetensors"}) {
    EXPECT_THAT(Problem({File("config.json"), File(path)}),
                HasSubstr("files[1].path: '"))
        << path;
  }
  EXPECT_THAT(Problem({File(std::string(1 << 20, 'a'))}),
              HasSubstr("files[0].path"));
}

// APFS takes two names for one that differ in case. Those that differ in
// Unicode's composition have no chance: a model's files have ASCII names.
TEST(FileList, NamesThatAFileSystemTakesForOne) {
  EXPECT_THAT(Problem({File("config.json"), File("model-a.safetensors"),
                       File("model-A.safetensors")}),
              HasSubstr("'model-A.safetensors' and 'model-a.safetensors' are "
                        "one name"));
  EXPECT_THAT(Problem({File("config.json"), File("config.json")}),
              HasSubstr("files[1].path"));
}

TEST(FileList, HashesAndSizes) {
  ModelFile file = File("config.json");
  file.sha256 = std::string(64, 'A');
  EXPECT_THAT(Problem({file}), HasSubstr("files[0].sha256"));
  file = File("config.json");
  file.size_bytes = -1;
  EXPECT_THAT(Problem({file}), HasSubstr("files[0].size_bytes"));
}

TEST(FileList, HasABound) {
  std::vector<ModelFile> files = {File("config.json")};
  while (files.size() < limits::kFilesOfModel) {
    files.push_back(File(absl::StrCat("model-", files.size(), ".safetensors")));
  }
  EXPECT_TRUE(CheckFileList(files).ok());
  files.push_back(File("model-x.safetensors"));
  EXPECT_THAT(Problem(files), HasSubstr("at most 1000"));
}

TEST(FileList, TheRevisionIsThatOfTheFilesWhateverTheirOrder) {
  const ModelFile a = File("config.json"), b = File("vocab.txt");
  EXPECT_EQ(RevisionOfFiles({a, b}), RevisionOfFiles({b, a}));
  EXPECT_NE(RevisionOfFiles({a}), RevisionOfFiles({a, b}));
  ModelFile other = b;
  other.sha256 = std::string(64, 'b');
  EXPECT_NE(RevisionOfFiles({a, b}), RevisionOfFiles({a, other}));
  EXPECT_EQ(RevisionOfFiles({a}).size(), 64u);
}

}  // namespace
}  // namespace mpsd::models
