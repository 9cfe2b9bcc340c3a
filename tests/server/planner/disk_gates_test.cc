// SPDX-License-Identifier: Apache-2.0
#include "server/planner/disk_gates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <string>

#include "absl/time/clock.h"
#include "tests/core/scratch_folder.h"
#include "tests/server/planner/fake_machine.h"

namespace mpsd::doctor {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class DiskSpeedTest : public testing::Test {
 protected:
  DiskProbe probe_{.folder = testing_support::FreshFolder("probe"),
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
  // A folder that is away is named.
  probe_.folder = "/nonexistent/folder";
  EXPECT_THAT(std::string(MeasureDisk(probe_).status().message()),
              HasSubstr("/nonexistent/folder"));
}

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
    EXPECT_THAT(FindingOf(facts, gate).found, HasSubstr("--deep"));
  }
  facts.disk.speed_problem = "the disk is nearly full";
  EXPECT_THAT(FindingOf(facts, "disk.read").found, HasSubstr("nearly full"));
}

TEST(DiskGates, AnOldMeasurementSaysHowOldAndModelsMayLieWhereNobodyWrites) {
  Facts facts = HealthyMac();
  facts.disk.speed->time = kNow - absl::Hours(5);
  EXPECT_EQ(FindingOf(facts, "disk.read").found, "4.0 GB/s, measured 5 h ago");
  facts.mounts[2].mount->read_only = true;
  EXPECT_THAT(Wrong(facts), testing::IsEmpty());
}

TEST(MachineGates, FindEachFault) {
  ExpectEachFound(
      HealthyMac(),
      {{"Rosetta",
        [](Facts& f) {
          f.machine.architecture = "x86_64";
          f.machine.translated = true;
        },
        "machine.architecture", kFail, "translated by Rosetta"},
       {"an Intel Mac",
        [](Facts& f) {
          f.machine.architecture = "x86_64";
          f.machine.translated.reset();
        },
        "machine.architecture", kFail, "Intel"},
       {"an old macOS", [](Facts& f) { f.machine.macos_version = "14.7.1"; },
        "machine.system", kFail, "macOS 14.7.1"},
       {"the GPU may wire everything",
        [](Facts& f) { f.host.wired_limit_bytes = int64_t{47} << 30; },
        "machine.wired_limit", kWarn, "98 %"}});
}

TEST(MachineGates, TellTheMachine) {
  Facts facts = HealthyMac();
  EXPECT_EQ(FindingOf(facts, "machine.architecture").found, "arm64, native");
  EXPECT_EQ(FindingOf(facts, "machine.chip").found,
            "Apple M4 Pro, GPU of 20 cores");
  EXPECT_EQ(FindingOf(facts, "machine.cores").found,
            "14, 10 fast and 4 efficient");
  EXPECT_EQ(FindingOf(facts, "machine.memory").found, "51.5 GB");
  EXPECT_EQ(FindingOf(HealthyLinux(), "machine.architecture").found, "x86_64");
  // A wired limit below the most is no fault.
  facts.host.wired_limit_bytes = int64_t{40} << 30;
  EXPECT_EQ(FindingOf(facts, "machine.wired_limit").verdict, Verdict::kPass);
}

TEST(LoadGates, FindEachFault) {
  ExpectEachFound(
      HealthyMac(),
      {{"the plug is out",
        [](Facts& f) {
          f.host.power_source = host::PowerSource::kBattery;
          f.host.battery_ratio = 0.62;
        },
        "power.source", kWarn, "battery, 62 %"},
       {"Low Power Mode", [](Facts& f) { f.host.low_power_mode = true; },
        "power.low_power_mode", kWarn, "on"},
       {"warm", [](Facts& f) { f.host.thermal = host::Thermal::kModerate; },
        "power.thermal", kWarn, "moderate"},
       {"hot", [](Facts& f) { f.host.thermal = host::Thermal::kHeavy; },
        "power.thermal", kFail, "heavy"},
       {"memory is short",
        [](Facts& f) { f.host.memory_pressure = host::MemoryPressure::kWarn; },
        "memory.pressure", kWarn, "warn"},
       {"memory is out",
        [](Facts& f) {
          f.host.memory_pressure = host::MemoryPressure::kCritical;
        },
        "memory.pressure", kFail, "critical"},
       {"the machine swaps",
        [](Facts& f) { f.host.swap_used_bytes = int64_t{9} << 30; },
        "memory.swap", kWarn, "9.7 GB used"},
       {"a large program",
        [](Facts& f) {
          f.processes->push_back({99, "Photos", int64_t{7} << 30, false});
        },
        "memory.programs", kWarn, "Photos (pid 99, 7.5 GB)"},
       {"others use the GPU",
        [](Facts& f) {
          f.host.gpu_utilization_ratio = 0.8;
          f.processes->push_back({98, "Blender", std::nullopt, true});
        },
        "gpu.programs", kWarn, "Blender (pid 98); busy 80 %"}});
}

TEST(LoadGates, AJobMayUseTheGpu) {
  Facts facts = HealthyMac();
  facts.host.gpu_utilization_ratio = 0.99;
  facts.running_job = "01KAH0000000000000000000AA";
  EXPECT_THAT(Wrong(facts), testing::IsEmpty());
  EXPECT_THAT(FindingOf(facts, "gpu.programs").found,
              HasSubstr("a job of mpsd has the device"));
}

TEST(LoadGates, NamesFiveOfManyLargePrograms) {
  Facts facts = HealthyMac();
  for (int i = 0; i < 9; ++i) {
    facts.processes->push_back({i, "big", int64_t{6} << 30, false});
  }
  const std::string found = FindingOf(facts, "memory.programs").found;
  EXPECT_EQ(std::count(found.begin(), found.end(), '('), 5) << found;
}

}  // namespace
}  // namespace mpsd::doctor
