// SPDX-License-Identifier: Apache-2.0
#include "core/base/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

namespace mpsd::base {
namespace {

namespace fs = std::filesystem;

class FileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "file_test.XXXXXX";
    dir_ = mkdtemp(pattern.data());
  }
  void TearDown() override { fs::remove_all(dir_); }
  void Write(const fs::path& path, const std::string& text) {
    std::ofstream(path) << text;
  }
  size_t EntriesIn(const fs::path& dir) {
    return std::distance(fs::directory_iterator(dir), fs::directory_iterator());
  }
  fs::path dir_;
};

TEST_F(FileTest, ReadsWhatWasWritten) {
  const std::string bytes("a\0b\n", 4);
  ASSERT_TRUE(WriteFileAtomic(dir_ / "f", bytes).ok());
  EXPECT_EQ(*ReadFile(dir_ / "f"), bytes);
  EXPECT_EQ((*MappedFile::Open(dir_ / "f"))->bytes(), bytes);
}

TEST_F(FileTest, AnEmptyFileMapsToNothing) {
  Write(dir_ / "f", "");
  auto file = MappedFile::Open(dir_ / "f");
  ASSERT_TRUE(file.ok());
  EXPECT_EQ((*file)->bytes().size(), 0u);
}

TEST_F(FileTest, MissingFilesAreNotFoundAndNamed) {
  for (const absl::Status& status :
       {ReadFile(dir_ / "none").status(),
        MappedFile::Open(dir_ / "none").status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("none"));
  }
}

TEST_F(FileTest, AFolderIsNoMappableFile) {
  EXPECT_EQ(MappedFile::Open(dir_).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(FileTest, DroppedPagesReadTheSameAgain) {
  const std::string bytes(100'000, 'x');
  Write(dir_ / "f", bytes);
  auto file = *MappedFile::Open(dir_ / "f");
  ASSERT_EQ(file->bytes(), bytes);
  file->DropPages(5, 60'000);
  EXPECT_EQ(file->bytes(), bytes);
}

TEST_F(FileTest, AFailedReplaceLeavesTheOldFileAndNoLitter) {
  ASSERT_TRUE(WriteFileAtomic(dir_ / "f", "old").ok());
  fs::create_directory(dir_ / "folder");
  Write(dir_ / "folder" / "kept", "1");
  // A folder cannot be replaced by a file.
  EXPECT_FALSE(WriteFileAtomic(dir_ / "folder", "new").ok());
  EXPECT_EQ(*ReadFile(dir_ / "folder" / "kept"), "1");
  EXPECT_EQ(EntriesIn(dir_), 2u);
}

TEST_F(FileTest, WritingBelowAMissingFolderIsNotFound) {
  EXPECT_EQ(WriteFileAtomic(dir_ / "no" / "f", "x").code(),
            absl::StatusCode::kNotFound);
}

TEST_F(FileTest, AStagedFolderIsInvisibleUntilCommitted) {
  {
    auto staged = StagedFolder::Create(dir_ / "out");
    ASSERT_TRUE(staged.ok());
    Write(staged->staging() / "f", "1");
    EXPECT_FALSE(fs::exists(dir_ / "out"));
  }
  EXPECT_EQ(EntriesIn(dir_), 0u) << "an uncommitted stage must vanish";
  auto staged = StagedFolder::Create(dir_ / "out");
  ASSERT_TRUE(staged.ok());
  Write(staged->staging() / "f", "2");
  ASSERT_TRUE(staged->Commit().ok());
  EXPECT_EQ(*ReadFile(dir_ / "out" / "f"), "2");
  EXPECT_EQ(EntriesIn(dir_), 1u);
}

TEST_F(FileTest, ACommitReplacesTheFolderThatWasThere) {
  fs::create_directory(dir_ / "out");
  Write(dir_ / "out" / "old", "1");
  auto staged = StagedFolder::Create(dir_ / "out");
  ASSERT_TRUE(staged.ok());
  Write(staged->staging() / "new", "2");
  ASSERT_TRUE(staged->Commit().ok());
  EXPECT_FALSE(fs::exists(dir_ / "out" / "old"));
  EXPECT_EQ(*ReadFile(dir_ / "out" / "new"), "2");
  EXPECT_EQ(EntriesIn(dir_), 1u);
}

TEST_F(FileTest, SyncTreeReportsAMissingFolder) {
  EXPECT_TRUE(SyncTree(dir_).ok());
  EXPECT_FALSE(SyncTree(dir_ / "none").ok());
}

TEST(ErrnoStatusTest, MapsCodes) {
  EXPECT_EQ(ErrnoStatus(ENOENT, "x").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ErrnoStatus(EACCES, "x").code(),
            absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(ErrnoStatus(ENOSPC, "x").code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ErrnoStatus(EPIPE, "x").code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ErrnoStatus(EIO, "disk").message(), "disk: Input/output error");
}

}  // namespace
}  // namespace mpsd::base
