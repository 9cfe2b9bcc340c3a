// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <string>

#include "server/jobs/job_deletion.h"

namespace mpsd::jobs {
namespace {

namespace fs = std::filesystem;

TEST(Ballast, TakesItsRoomUntilItIsThrownOff) {
  std::string name = testing::TempDir() + "ballastXXXXXX";
  const fs::path state = mkdtemp(name.data());
  const fs::path path = BallastPath(state / "jobs");
  EXPECT_EQ(path, state / "ballast");
  EXPECT_FALSE(ThrowOffBallast(path));
  KeepBallast(path);
  struct stat first, second;
  ASSERT_EQ(stat(path.c_str(), &first), 0);
  EXPECT_EQ(first.st_size, kBallastBytes);
  KeepBallast(path);
  ASSERT_EQ(stat(path.c_str(), &second), 0);
  EXPECT_EQ(first.st_ino, second.st_ino);  // it is kept, not made anew
  EXPECT_TRUE(ThrowOffBallast(path));
  EXPECT_TRUE(fs::is_empty(state));
  EXPECT_FALSE(ThrowOffBallast(path));
  fs::remove_all(state);
  KeepBallast(path);  // where it cannot be, it is not
  EXPECT_FALSE(fs::exists(path));
}

}  // namespace
}  // namespace mpsd::jobs
