// SPDX-License-Identifier: Apache-2.0
#include "server/doctor/disk_speed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <limits>
#include <string>

#include "absl/time/clock.h"

namespace mpsd::doctor {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class DiskSpeedTest : public testing::Test {
 protected:
  DiskSpeedTest() { fs::create_directories(probe_.folder); }
  ~DiskSpeedTest() override { fs::remove_all(probe_.folder); }
  DiskProbe probe_{.folder = fs::path(testing::TempDir()) /
                             ("probe-" + std::to_string(getpid())),
                   .bytes = 4 << 20};
};

TEST_F(DiskSpeedTest, IsMeasuredAndLeavesNothing) {
  const auto speed = MeasureDisk(probe_);
  ASSERT_TRUE(speed.ok()) << speed.status();
  EXPECT_GT(speed->write_bytes_per_second, 1e4);
  EXPECT_GT(speed->read_bytes_per_second, 1e4);
  EXPECT_LT(absl::Now() - speed->time, absl::Minutes(1));
  EXPECT_TRUE(fs::is_empty(probe_.folder));
}

// However slow the disk: one piece is written, and counts.
TEST_F(DiskSpeedTest, ASlowDiskIsMeasuredByLess) {
  probe_.patience = absl::ZeroDuration();
  probe_.bytes = 1 << 30;
  const auto speed = MeasureDisk(probe_);
  ASSERT_TRUE(speed.ok()) << speed.status();
  EXPECT_GT(speed->read_bytes_per_second, 0);
}

TEST_F(DiskSpeedTest, ADiskThatIsNearlyFullIsLeftAlone) {
  probe_.keep_free_bytes = std::numeric_limits<int64_t>::max() / 2;
  const auto speed = MeasureDisk(probe_);
  EXPECT_TRUE(absl::IsResourceExhausted(speed.status())) << speed.status();
  EXPECT_THAT(std::string(speed.status().message()), HasSubstr("nearly full"));
  EXPECT_TRUE(fs::is_empty(probe_.folder));
}

TEST_F(DiskSpeedTest, AFolderThatIsAwayIsNamed) {
  probe_.folder = "/nonexistent/folder";
  EXPECT_THAT(std::string(MeasureDisk(probe_).status().message()),
              HasSubstr("/nonexistent/folder"));
}

}  // namespace
}  // namespace mpsd::doctor
