// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/pki.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "tests/core/scratch_folder.h"
#include "tests/server/rpc/made.h"

namespace mpsd::pki {
namespace {

namespace fs = std::filesystem;

int ModeOf(const fs::path& path) {
  struct stat info {};
  EXPECT_EQ(lstat(path.c_str(), &info), 0) << path;
  return info.st_mode & 07777;
}

size_t Entries(const fs::path& folder) {
  return std::distance(fs::directory_iterator(folder), {});
}

// Runs each test once under a mask that hides nothing and once under one that
// hides much.
class PrivateFilesTest : public testing::TestWithParam<mode_t> {
 protected:
  PrivateFilesTest() : mask_(umask(GetParam())) {}
  ~PrivateFilesTest() override { umask(mask_); }
  const mode_t mask_;
  const fs::path folder_ = testing_support::FreshFolder("private");
};

TEST_P(PrivateFilesTest, ANewFileHasItsModeWhateverTheUmask) {
  EXPECT_TRUE(WriteNew(folder_ / "key", "secret", kSecretMode).ok());
  EXPECT_TRUE(WriteNew(folder_ / "crt", "public", kPublicMode).ok());
  EXPECT_EQ(ModeOf(folder_ / "key"), 0600);
  EXPECT_EQ(ModeOf(folder_ / "crt"), 0644);
  EXPECT_EQ(ReadText(folder_ / "key"), "secret");
}

TEST_P(PrivateFilesTest, ANewFileTakesNobodysPlace) {
  WriteText(folder_ / "file", "old");
  EXPECT_TRUE(
      absl::IsAlreadyExists(WriteNew(folder_ / "file", "new", kSecretMode)));
  fs::create_symlink(folder_ / "elsewhere", folder_ / "link");
  EXPECT_FALSE(WriteNew(folder_ / "link", "new", kSecretMode).ok());
  EXPECT_EQ(ReadText(folder_ / "file"), "old");
  EXPECT_FALSE(fs::exists(folder_ / "elsewhere"));
}

TEST_P(PrivateFilesTest, AFileIsReplacedWithItsModeAndNothingIsLeft) {
  WriteText(folder_ / "file", "old");
  EXPECT_TRUE(Replace(folder_ / "file", "new", kSecretMode).ok());
  EXPECT_EQ(ReadText(folder_ / "file"), "new");
  EXPECT_EQ(ModeOf(folder_ / "file"), 0600);
  // A link is replaced, not followed.
  WriteText(folder_ / "target", "kept");
  fs::create_symlink(folder_ / "target", folder_ / "link");
  EXPECT_TRUE(Replace(folder_ / "link", "new", kSecretMode).ok());
  EXPECT_EQ(ReadText(folder_ / "target"), "kept");
  EXPECT_EQ(Entries(folder_), 3u);
}

TEST_P(PrivateFilesTest, WhatCannotBeWrittenLeavesTheOldFile) {
  fs::create_directory(folder_ / "taken");
  WriteText(folder_ / "taken" / "file", "");
  EXPECT_FALSE(Replace(folder_ / "taken", "new", kSecretMode).ok());
  EXPECT_FALSE(Replace(folder_ / "none" / "file", "new", kSecretMode).ok());
  EXPECT_EQ(Entries(folder_), 1u);
}

TEST_P(PrivateFilesTest, FoldersAreTheirOwnersAlone) {
  EXPECT_TRUE(MakePrivateFolder(folder_ / "a" / "b").ok());
  EXPECT_EQ(ModeOf(folder_ / "a" / "b"), 0700);
  EXPECT_EQ(ModeOf(folder_ / "a"), 0700);
  EXPECT_TRUE(MakePrivateFolder(folder_ / "a" / "b").ok());
  WriteText(folder_ / "file", "");
  EXPECT_FALSE(MakePrivateFolder(folder_ / "file" / "c").ok());
}

TEST_P(PrivateFilesTest, OnlyTheRemainsOfOneNameAreRemoved) {
  const fs::path remains = base::TemporaryBeside(folder_ / "tls-new");
  fs::create_directory(remains);
  WriteText(remains / "ca.key", "secret");
  const fs::path foreign = base::TemporaryBeside(folder_ / "tls-new-ones");
  WriteText(foreign, "");
  WriteText(folder_ / "tls-new", "");
  RemoveUnfinished(folder_, "tls-new");
  EXPECT_FALSE(fs::exists(remains));
  EXPECT_TRUE(fs::exists(foreign));
  EXPECT_TRUE(fs::exists(folder_ / "tls-new"));
}

TEST_P(PrivateFilesTest, OneAtATimeHoldsAFolder) {
  auto first = FolderLock::Take(folder_);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(absl::IsUnavailable(FolderLock::Take(folder_).status()));
  first->reset();
  EXPECT_TRUE(FolderLock::Take(folder_).ok());
  EXPECT_TRUE(absl::IsNotFound(FolderLock::Take(folder_ / "none").status()));
}

TEST_P(PrivateFilesTest, RootActsAsTheFoldersOwner) {
  if (geteuid() != 0) GTEST_SKIP() << "only root acts as others";
  constexpr uid_t kOther = 12345;
  fs::permissions(folder_.parent_path(), fs::perms(0711));
  ASSERT_EQ(chown(folder_.c_str(), kOther, kOther), 0);
  const fs::path roots = testing_support::FreshFolder("roots");
  fs::permissions(roots, fs::perms(0755));
  {
    const AsOwnerOf owner(folder_ / "tls" / "deeper");
    EXPECT_TRUE(MakePrivateFolder(folder_ / "tls").ok());
    EXPECT_TRUE(Replace(folder_ / "tls" / "key", "secret", kSecretMode).ok());
    // What the owner may not, root may not now.
    EXPECT_FALSE(WriteNew(roots / "key", "secret", kSecretMode).ok());
  }
  EXPECT_TRUE(WriteNew(roots / "key", "secret", kSecretMode).ok());
  struct stat info {};
  ASSERT_EQ(stat((folder_ / "tls" / "key").c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, kOther);
  EXPECT_EQ(info.st_gid, kOther);
}

INSTANTIATE_TEST_SUITE_P(Umasks, PrivateFilesTest,
                         testing::Values(mode_t{0}, mode_t{077}));

}  // namespace
}  // namespace mpsd::pki
