// SPDX-License-Identifier: Apache-2.0
#include "server/doctor/disk_gates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <limits>
#include <string>

#include "absl/time/clock.h"
#include "tests/server/doctor/fake_machine.h"

namespace mpsd::doctor {
namespace {

// --- disk speed --------------------------------------------------------------

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

// --- disk gates --------------------------------------------------------------

using runbook::Verdict;

host::Mount Network() { return {"/mnt", "nfs", "nas:/models", true, false}; }

TEST(DiskGates, FindEachFault) {
  ExpectEachFound(
      HealthyMac(),
      {{"little room", [](Facts& f) { f.disk.free_bytes = 5'000'000'000; },
        "disk.free", kWarn, "5.0 GB free of 1.0 TB"},
       {"no room for a job", [](Facts& f) { f.disk.free_bytes = 1'000'000; },
        "disk.free", kFail, "1.0 MB free"},
       {"a disk that writes slowly",
        [](Facts& f) { f.disk.speed->write_bytes_per_second = 20e6; },
        "disk.write", kWarn, "20.0 MB/s"},
       {"a disk that reads slowly",
        [](Facts& f) { f.disk.speed->read_bytes_per_second = 50e6; },
        "disk.read", kWarn, "50.0 MB/s"},
       {"the state folder on a network volume",
        [](Facts& f) { f.mounts[0].mount = Network(); }, "mount.state", kFail,
        "a network volume from nas:/models"},
       {"the state folder on a read-only volume",
        [](Facts& f) { f.mounts[0].mount->read_only = true; }, "mount.state",
        kFail, "read-only"},
       {"the cache on a network volume",
        [](Facts& f) { f.mounts[1].mount = Network(); }, "mount.cache", kWarn,
        "a network volume"},
       {"models on a network volume",
        [](Facts& f) { f.mounts[2].mount = Network(); }, "mount.models", kWarn,
        "/srv/models on nfs"},
       {"data on a network volume",
        [](Facts& f) { f.mounts[3].mount = Network(); }, "mount.data", kWarn,
        "/srv/data"}});
}

TEST(DiskGates, ASpeedThatNobodyMeasuredIsNotTold) {
  Facts facts = HealthyMac();
  facts.disk.speed.reset();
  for (const char* gate : {"disk.write", "disk.read"}) {
    EXPECT_EQ(FindingOf(facts, gate).verdict, Verdict::kNotTold);
    EXPECT_THAT(FindingOf(facts, gate).found, testing::HasSubstr("--deep"));
  }
  facts.disk.speed_problem = "the disk is nearly full";
  EXPECT_THAT(FindingOf(facts, "disk.read").found,
              testing::HasSubstr("nearly full"));
}

TEST(DiskGates, AnOldMeasurementSaysHowOld) {
  Facts facts = HealthyMac();
  facts.disk.speed->time = kNow - absl::Hours(5);
  EXPECT_EQ(FindingOf(facts, "disk.read").found, "4.0 GB/s, measured 5 h ago");
}

TEST(DiskGates, ModelsMayLieOnAReadOnlyVolume) {
  Facts facts = HealthyMac();
  facts.mounts[2].mount->read_only = true;
  EXPECT_THAT(Wrong(facts), testing::IsEmpty());
}

}  // namespace
}  // namespace mpsd::doctor
