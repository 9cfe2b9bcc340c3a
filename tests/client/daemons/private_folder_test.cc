// SPDX-License-Identifier: Apache-2.0
#include "client/daemons/private_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "tests/core/scratch_folder.h"

namespace mpsd::client {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

int ModeOf(const fs::path& path) {
  struct stat info;
  EXPECT_EQ(lstat(path.c_str(), &info), 0) << path;
  return info.st_mode & 07777;
}

class PrivateFolderTest : public testing::Test {
 protected:
  std::unique_ptr<PrivateFolder> Make() {
    auto folder = PrivateFolder::Make(path_);
    EXPECT_TRUE(folder.ok()) << folder.status();
    return *std::move(folder);
  }
  void ExpectRefused(const absl::Status& status, const char* why) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
    EXPECT_THAT(std::string(status.message()), HasSubstr(path_.string()));
  }

  const fs::path root_ = testing_support::FreshFolder("private");
  const fs::path path_ = root_ / "a/secrets";
};

TEST_F(PrivateFolderTest, FilesAreTheOwnersAloneWhateverTheMask) {
  const mode_t mask = umask(0);
  const auto folder = Make();
  ASSERT_TRUE(folder->Write("x", "secret").ok());
  umask(mask);
  EXPECT_EQ(ModeOf(path_), 0700);
  EXPECT_EQ(ModeOf(path_ / "x"), 0600);
  EXPECT_EQ(folder->Read("x", 100).value(), "secret");
}

TEST_F(PrivateFolderTest, WriteReplacesAndRemoveForgets) {
  const auto folder = Make();
  ASSERT_TRUE(folder->Write("x", "one").ok());
  ASSERT_TRUE(folder->Write("x", "two").ok());
  EXPECT_EQ(folder->Read("x", 100).value(), "two");
  ASSERT_TRUE(folder->Write("b", "").ok());
  EXPECT_THAT(folder->Names().value(), ElementsAre("b", "x"));
  EXPECT_TRUE(folder->Remove("x").ok());
  EXPECT_TRUE(folder->Remove("x").ok());
  EXPECT_TRUE(absl::IsNotFound(folder->Read("x", 100).status()));
}

TEST_F(PrivateFolderTest, RemoveTakesWhatAKilledWriteLeft) {
  const auto folder = Make();
  ASSERT_TRUE(folder->Write("x", "one").ok());
  std::ofstream(path_ / ".x.77.1.tmp") << "secret";
  std::ofstream(path_ / ".xy.77.1.tmp") << "another's";
  EXPECT_THAT(folder->Names().value(), ElementsAre("x"));
  EXPECT_TRUE(folder->Remove("x").ok());
  EXPECT_FALSE(fs::exists(path_ / ".x.77.1.tmp"));
  EXPECT_TRUE(fs::exists(path_ / ".xy.77.1.tmp"));
}

TEST_F(PrivateFolderTest, NeitherALinkNorAFileForTheFolder) {
  EXPECT_TRUE(absl::IsNotFound(PrivateFolder::Open(path_).status()));
  fs::create_directories(root_ / "elsewhere");
  fs::create_directories(path_.parent_path());
  fs::create_directory_symlink(root_ / "elsewhere", path_);
  ExpectRefused(PrivateFolder::Open(path_).status(), "not a link");
  ExpectRefused(PrivateFolder::Make(path_).status(), "not a link");
  fs::remove(path_);
  std::ofstream(path_) << "x";
  ExpectRefused(PrivateFolder::Make(path_).status(), "expected a folder");
}

TEST_F(PrivateFolderTest, AFolderOrAFileThatOthersMayUse) {
  const auto folder = Make();
  ASSERT_TRUE(folder->Write("x", "one").ok());
  fs::permissions(path_ / "x", fs::perms(0640));
  ExpectRefused(folder->Read("x", 100).status(), "chmod 600");
  fs::permissions(path_, fs::perms(0750));
  ExpectRefused(PrivateFolder::Open(path_).status(), "chmod 700");
}

TEST_F(PrivateFolderTest, AnotherAccountsFile) {
  const auto folder = Make();
  ASSERT_TRUE(folder->Write("x", "one").ok());
  if (chown((path_ / "x").c_str(), 12345, 12345) != 0) {
    GTEST_SKIP() << "only root gives files away";
  }
  ExpectRefused(folder->Read("x", 100).status(), "another account (uid 12345)");
  ASSERT_EQ(chown(path_.c_str(), 12345, 12345), 0);
  ExpectRefused(PrivateFolder::Open(path_).status(), "another account");
}

TEST_F(PrivateFolderTest, NoLinksPipesOrFoldersForFiles) {
  const auto folder = Make();
  std::ofstream(root_ / "target") << "other";
  fs::create_symlink(root_ / "target", path_ / "link");
  ExpectRefused(folder->Read("link", 100).status(), "not a link");
  ASSERT_EQ(mkfifo((path_ / "pipe").c_str(), 0600), 0);
  ExpectRefused(folder->Read("pipe", 100).status(), "not a regular file");
  fs::create_directory(path_ / "folder");
  ExpectRefused(folder->Read("folder", 100).status(), "not a regular file");
  // A write takes the link's place and leaves what it led to alone.
  ASSERT_TRUE(folder->Write("link", "mine").ok());
  EXPECT_FALSE(fs::is_symlink(path_ / "link"));
  std::string text;
  std::ifstream(root_ / "target") >> text;
  EXPECT_EQ(text, "other");
}

TEST_F(PrivateFolderTest, LongFilesAreNotRead) {
  const auto folder = Make();
  ASSERT_TRUE(folder->Write("x", std::string(101, 'a')).ok());
  EXPECT_EQ(folder->Read("x", 100).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(folder->Read("x", 101).ok());
}

TEST_F(PrivateFolderTest, AFullDiskLeavesTheOldFileAndNothingElse) {
  const auto folder = Make();
  ASSERT_TRUE(folder->Write("x", "one").ok());
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  const rlimit tiny = {16, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tiny), 0);
  const absl::Status status = folder->Write("x", std::string(1000, 'a'));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, handler);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr((path_ / "x").string()));
  EXPECT_EQ(folder->Read("x", 100).value(), "one");
  EXPECT_EQ(std::distance(fs::directory_iterator(path_), {}), 1);
}

TEST_F(PrivateFolderTest, AFileIsWholeAtAnyMoment) {
  const auto folder = Make();
  const std::string a(5000, 'a'), b(9000, 'b');
  ASSERT_TRUE(folder->Write("x", a).ok());
  std::thread writer([&] {
    for (int i = 0; i < 50; ++i) {
      EXPECT_TRUE(folder->Write("x", i % 2 == 0 ? b : a).ok());
    }
  });
  for (int i = 0; i < 200; ++i) {
    const std::string text = folder->Read("x", 10'000).value();
    EXPECT_TRUE(text == a || text == b) << text.size();
  }
  writer.join();
}

}  // namespace
}  // namespace mpsd::client
