// SPDX-License-Identifier: Apache-2.0
#include "server/state_dir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace mpsd {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class StateDirTest : public testing::Test {
 protected:
  ~StateDirTest() override { fs::remove_all(base_); }
  const fs::path base_ =
      fs::path(testing::TempDir()) / ("state_dir-" + std::to_string(getpid()));
};

TEST_F(StateDirTest, IsMadeForItsOwnerAlone) {
  auto dir = StateDir::Open(base_ / "a" / "state");
  ASSERT_TRUE(dir.ok()) << dir.status();
  struct stat info;
  ASSERT_EQ(stat((*dir)->path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700);
}

TEST_F(StateDirTest, ASecondHolderIsRefusedByName) {
  auto first = StateDir::Open(base_);
  ASSERT_TRUE(first.ok()) << first.status();
  auto second = StateDir::Open(base_);
  EXPECT_TRUE(absl::IsUnavailable(second.status())) << second.status();
  EXPECT_THAT(std::string(second.status().message()),
              HasSubstr("pid " + std::to_string(getpid()) + ")"));
  first->reset();
  EXPECT_TRUE(StateDir::Open(base_).ok());
}

TEST_F(StateDirTest, AStalePidIsReplaced) {
  fs::create_directories(base_);
  std::ofstream(base_ / "lock") << "999999999999\n";
  auto first = StateDir::Open(base_);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_THAT(std::string(StateDir::Open(base_).status().message()),
              HasSubstr("pid " + std::to_string(getpid()) + ")"));
}

TEST_F(StateDirTest, AFileInItsPlaceIsAnError) {
  std::ofstream{base_} << "x";
  auto dir = StateDir::Open(base_);
  EXPECT_FALSE(dir.ok());
  EXPECT_THAT(std::string(dir.status().message()), HasSubstr(base_.string()));
}

}  // namespace
}  // namespace mpsd
