// SPDX-License-Identifier: Apache-2.0
#include "client/former_download.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/base/sha256.h"

namespace mpsd::client {
namespace {

namespace fs = std::filesystem;

class FormerDownloadTest : public testing::Test {
 protected:
  FormerDownloadTest() {
    std::string name = testing::TempDir() + "formerXXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~FormerDownloadTest() override { fs::remove_all(folder_); }

  void Write(const std::string& name, const std::string& bytes) {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    files_.push_back(
        {name, static_cast<int64_t>(bytes.size()), base::Sha256Hex(bytes)});
  }

  fs::path folder_;
  std::vector<DownloadedFile> files_;
};

TEST_F(FormerDownloadTest, NamesEachBeforeItsFolderAndRemovesAll) {
  Write("config.json", "{}");
  Write("a/b/c", "1");
  ASSERT_TRUE(WriteDownloadList(folder_, "ID", files_).ok());
  const auto entries = FormerDownload(folder_, nullptr);
  ASSERT_TRUE(entries.ok()) << entries.status();
  EXPECT_EQ(entries->size(), 5u);
  EXPECT_TRUE(RemoveFormer(folder_, *entries));
  EXPECT_FALSE(fs::exists(folder_));
}

TEST_F(FormerDownloadTest, WhatComesInMeanwhileIsLeft) {
  Write("a/b/c", "1");
  ASSERT_TRUE(WriteDownloadList(folder_, "ID", files_).ok());
  const auto entries = FormerDownload(folder_, nullptr);
  ASSERT_TRUE(entries.ok()) << entries.status();
  Write("a/late", "2");
  EXPECT_FALSE(RemoveFormer(folder_, *entries));
  EXPECT_TRUE(fs::exists(folder_ / "a/late"));
  EXPECT_FALSE(fs::exists(folder_ / "a/b"));
}

TEST_F(FormerDownloadTest, ALargeFileIsComparedByItsSize) {
  Write("large", std::string((16 << 20) + 1, 'x'));
  ASSERT_TRUE(WriteDownloadList(folder_, "ID", files_).ok());
  EXPECT_TRUE(FormerDownload(folder_, nullptr).ok());
  fs::resize_file(folder_ / "large", 16 << 20);
  const auto refused = FormerDownload(folder_, nullptr);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(FormerDownloadTest, ManyNamesAreCountedAndMadePrintable) {
  for (int i = 0; i < 25; ++i) Write("f" + std::to_string(i), "");
  Write("a\x1b[2J", "");
  const absl::Status refused = FormerDownload(folder_, nullptr).status();
  const std::string text(refused.message());
  EXPECT_NE(text.find("\n  and 16 more"), std::string::npos) << text;
  EXPECT_EQ(text.find('\x1b'), std::string::npos) << text;
}

TEST_F(FormerDownloadTest, WithoutAListOneSignIsEnoughUntilTheNamesAreKnown) {
  Write("config.json", "{}");
  Write("mine", "x");
  EXPECT_TRUE(FormerDownload(folder_, nullptr).ok());
  const std::vector<DownloadedFile> fresh = {files_[0]};
  EXPECT_FALSE(FormerDownload(folder_, &fresh).ok());
  fs::remove(folder_ / "mine");
  EXPECT_TRUE(FormerDownload(folder_, &fresh).ok());
}

}  // namespace
}  // namespace mpsd::client
