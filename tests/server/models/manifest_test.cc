// SPDX-License-Identifier: Apache-2.0
#include "server/models/manifest.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace mpsd::models {
namespace {

namespace fs = std::filesystem;

class ManifestTest : public testing::Test {
 protected:
  ManifestTest()
      : folder_(fs::path(testing::TempDir()) /
                testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~ManifestTest() override { fs::remove_all(folder_); }

  const fs::path folder_;
  const std::string revision_ = std::string(64, 'a');
};

TEST_F(ManifestTest, ReadsWhatItWrote) {
  EXPECT_TRUE(absl::IsNotFound(ReadManifest(folder_).status()));
  const Manifest written{"org/m", "ada", revision_, 7,
                         absl::FromUnixMicros(1'700'000'000'123'456)};
  ASSERT_TRUE(WriteManifest(folder_, written).ok());
  const auto read = ReadManifest(folder_);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->name, "org/m");
  EXPECT_EQ(read->owner, "ada");
  EXPECT_EQ(read->revision, revision_);
  EXPECT_EQ(read->size_bytes, 7);
  EXPECT_EQ(read->create_time, written.create_time);
  ASSERT_TRUE(RemoveManifest(folder_).ok());
  EXPECT_TRUE(RemoveManifest(folder_).ok()) << "again";
  EXPECT_TRUE(absl::IsNotFound(ReadManifest(folder_).status()));
}

// Names and revisions in it become paths.
TEST_F(ManifestTest, WhatIsNoManifest) {
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[]"),
        std::string(100'000, '['), std::string(1 << 20, ' '),
        R"({"name":"../x","owner":"a","revision":")" + revision_ + "\"}",
        std::string(R"({"name":"m","owner":"a","revision":"../.."})"),
        R"({"name":"m","owner":"","revision":")" + revision_ + "\"}",
        R"({"name":7,"owner":"a","revision":")" + revision_ + "\"}"}) {
    std::ofstream(folder_ / "model.json") << text;
    const auto read = ReadManifest(folder_);
    EXPECT_FALSE(read.ok()) << text.substr(0, 60);
    EXPECT_FALSE(absl::IsNotFound(read.status()));
  }
}

}  // namespace
}  // namespace mpsd::models
