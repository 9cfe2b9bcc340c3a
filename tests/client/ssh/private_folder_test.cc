// SPDX-License-Identifier: Apache-2.0
#include "client/ssh/private_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace mpsd::ssh {
namespace {

namespace fs = std::filesystem;

class PrivateFolderTest : public testing::Test {
 protected:
  PrivateFolderTest() {
    std::string name = "/tmp/mpsdXXXXXX";
    folder_ = mkdtemp(name.data());
    setenv("XDG_RUNTIME_DIR", folder_.c_str(), 1);
    unsetenv("TMPDIR");
  }
  ~PrivateFolderTest() override {
    unsetenv("XDG_RUNTIME_DIR");
    unsetenv("TMPDIR");
    fs::remove_all(folder_);
  }
  static std::string Path() {
    const auto made = PrivateFolder::Make();
    EXPECT_TRUE(made.ok()) << made.status();
    return made.ok() ? (*made)->path() : "";
  }
  // A folder as a program leaves it that was killed.
  fs::path Leave(const std::string& suffix, bool lock, int age_seconds) {
    const fs::path path =
        folder_ / absl::StrCat("mpsctl-", geteuid(), "-", suffix);
    fs::create_directory(path);
    if (lock) std::ofstream(path / "lock");
    std::ofstream(path / "s");
    timeval now[2];
    gettimeofday(&now[0], nullptr);
    now[0].tv_sec -= age_seconds;
    now[1] = now[0];
    EXPECT_EQ(utimes(path.c_str(), now), 0);
    return path;
  }

  fs::path folder_;
};

TEST_F(PrivateFolderTest, IsTheAccountsAloneAndGoesWithTheObject) {
  auto made = PrivateFolder::Make();
  ASSERT_TRUE(made.ok());
  const fs::path path = (*made)->path();
  EXPECT_EQ(path.parent_path(), folder_);
  struct stat facts;
  ASSERT_EQ(stat(path.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0700u);
  EXPECT_EQ(facts.st_uid, geteuid());
  std::ofstream(path / "s") << "x";
  made->reset();
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(PrivateFolderTest, TheNextRemovesWhatAKilledOneLeft) {
  const fs::path left = Leave("killed", true, 0);
  const fs::path unlocked = Leave("earlier", false, 120);
  const fs::path young = Leave("young", false, 0);
  auto living = PrivateFolder::Make();
  ASSERT_TRUE(living.ok());
  Path();
  EXPECT_FALSE(fs::exists(left));
  EXPECT_FALSE(fs::exists(unlocked));
  EXPECT_TRUE(fs::exists(young)) << "somebody may be just making it";
  EXPECT_TRUE(fs::exists((*living)->path()));
}

TEST_F(PrivateFolderTest, NothingBehindALinkIsRemoved) {
  const fs::path target = folder_ / "target";
  fs::create_directory(target);
  std::ofstream(target / "lock");
  std::ofstream(target / "letter") << "x";
  const fs::path link = folder_ / absl::StrCat("mpsctl-", geteuid(), "-link");
  fs::create_directory_symlink(target, link);
  const fs::path left = Leave("with-link", true, 0);
  fs::create_symlink(target / "letter", left / "s2");
  Path();
  EXPECT_TRUE(fs::exists(target / "letter"));
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_FALSE(fs::exists(left));
}

TEST_F(PrivateFolderTest, PathsThatSocketsOrSshCannotHaveAreLeftOut) {
  for (const std::string& name :
       {std::string(80, 'a'), std::string("a b"), std::string("100%h"),
        std::string("${HOME}"), std::string("a:b")}) {
    const fs::path odd = folder_ / name;
    fs::create_directory(odd);
    setenv("XDG_RUNTIME_DIR", odd.c_str(), 1);
    setenv("TMPDIR", (folder_.string() + "/").c_str(), 1);
    EXPECT_EQ(fs::path(Path()).parent_path(), folder_) << name;
  }
  for (const char* none : {"", "relative", "/no/such/folder"}) {
    setenv("XDG_RUNTIME_DIR", none, 1);
    setenv("TMPDIR", none, 1);
    EXPECT_EQ(fs::path(Path()).parent_path(), "/tmp") << none;
  }
}

// 103 bytes on a Mac; ssh adds 17 to the name of its control socket at first.
TEST_F(PrivateFolderTest, SocketsInItHaveShortEnoughPaths) {
  setenv("XDG_RUNTIME_DIR", "/var/folders/zz/zyxvpxvq6csfxvn_n0000000000000/T",
         1);
  EXPECT_LE(Path().size() + 2 + 17, 103u);
  for (size_t length = 40; length < 70; ++length) {
    const fs::path base =
        folder_ / std::string(length - folder_.string().size() - 1, 'b');
    fs::create_directory(base);
    setenv("XDG_RUNTIME_DIR", base.c_str(), 1);
    EXPECT_LE(Path().size() + 2 + 17, 103u) << length;
  }
}

}  // namespace
}  // namespace mpsd::ssh
