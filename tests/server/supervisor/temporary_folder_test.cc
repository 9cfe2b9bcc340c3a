// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/temporary_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace mpsd::supervisor {
namespace {

namespace fs = std::filesystem;

class TemporaryFolderTest : public testing::Test {
 protected:
  TemporaryFolderTest() {
    std::string name = testing::TempDir() + "temporary_folderXXXXXX";
    base_ = mkdtemp(name.data());
    parent_ = base_ / "tmp";
  }
  ~TemporaryFolderTest() override { fs::remove_all(base_); }

  static mode_t ModeOf(const fs::path& path) {
    struct stat info {};
    lstat(path.c_str(), &info);
    return info.st_mode & 07777;
  }

  fs::path base_, parent_;
};

TEST_F(TemporaryFolderTest, IsTheUsersAloneAndGoes) {
  const mode_t before = umask(0);
  auto folder = TemporaryFolder::Create(parent_, "J");
  umask(before);
  ASSERT_TRUE(folder.ok()) << folder.status();
  EXPECT_EQ((*folder)->path(), parent_ / "J");
  EXPECT_EQ(ModeOf(parent_), 0700u);
  EXPECT_EQ(ModeOf(parent_ / "J"), 0700u);
  fs::create_directories(parent_ / "J/deep/er");
  std::ofstream(parent_ / "J/deep/er/file") << "x";
  folder->reset();
  EXPECT_FALSE(fs::exists(parent_ / "J"));
  EXPECT_TRUE(fs::exists(parent_));
}

TEST_F(TemporaryFolderTest, WhatAnEarlierWorkerLeftIsGone) {
  fs::create_directories(parent_ / "J");
  fs::permissions(parent_, fs::perms::all);
  std::ofstream(parent_ / "J/old") << "x";
  auto folder = TemporaryFolder::Create(parent_, "J");
  ASSERT_TRUE(folder.ok());
  EXPECT_TRUE(fs::is_empty(parent_ / "J"));
  EXPECT_EQ(ModeOf(parent_), 0700u);
}

TEST_F(TemporaryFolderTest, LinksAreRemovedAndNotFollowed) {
  fs::create_directories(base_ / "other");
  std::ofstream(base_ / "other/kept") << "x";
  fs::create_directories(parent_);
  fs::create_directory_symlink(base_ / "other", parent_ / "J");
  fs::create_directory_symlink(base_ / "other", parent_ / "K");
  auto folder = TemporaryFolder::Create(parent_, "J");
  ASSERT_TRUE(folder.ok()) << folder.status();
  EXPECT_FALSE(fs::is_symlink(parent_ / "J"));
  fs::create_directory_symlink(base_ / "other", parent_ / "J/inner");
  folder->reset();
  TemporaryFolder::RemoveAll(parent_);
  EXPECT_TRUE(fs::is_empty(parent_));
  EXPECT_TRUE(fs::exists(base_ / "other/kept"));
}

TEST_F(TemporaryFolderTest, AParentThatIsALinkIsRefused) {
  fs::create_directories(base_ / "other/J");
  fs::create_directory_symlink(base_ / "other", parent_);
  EXPECT_FALSE(TemporaryFolder::Create(parent_, "J").ok());
  TemporaryFolder::RemoveAll(parent_);
  EXPECT_TRUE(fs::exists(base_ / "other/J"));
}

TEST_F(TemporaryFolderTest, AFolderThatTheWorkerClosedGoesToo) {
  auto folder = TemporaryFolder::Create(parent_, "J");
  ASSERT_TRUE(folder.ok());
  fs::create_directories(parent_ / "J/closed/inner");
  std::ofstream(parent_ / "J/closed/inner/file") << "x";
  fs::permissions(parent_ / "J/closed/inner", fs::perms::none);
  fs::permissions(parent_ / "J/closed", fs::perms::none);
  fs::permissions(parent_ / "J", fs::perms::none);
  folder->reset();
  EXPECT_FALSE(fs::exists(parent_ / "J"));
}

TEST_F(TemporaryFolderTest, EverythingGoesAtTheStart) {
  TemporaryFolder::RemoveAll(parent_);  // nothing is there yet
  fs::create_directories(parent_ / "J1/x");
  std::ofstream(parent_ / "file") << "x";
  TemporaryFolder::RemoveAll(parent_);
  EXPECT_TRUE(fs::is_empty(parent_));
}

}  // namespace
}  // namespace mpsd::supervisor
