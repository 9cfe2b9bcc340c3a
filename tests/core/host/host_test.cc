// SPDX-License-Identifier: Apache-2.0
#include "core/host/host.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "core/host/file_host.h"
#include "core/host/linux_files.h"
#include "core/host/machine.h"
#include "core/host/mounts.h"
#include "core/host/platform.h"
#include "core/host/processes.h"
#include "tests/core/scratch_folder.h"

// The contracts of this room, whichever system implements them.

namespace mpsd::host {

namespace {

TEST(HostNames, GoBothWaysAndNumbersAreThoseOfMacOS) {
  for (PowerSource source : {PowerSource::kMains, PowerSource::kBattery}) {
    EXPECT_EQ(PowerSourceNamed(Name(source)), source);
  }
  for (Thermal level : {Thermal::kNominal, Thermal::kModerate, Thermal::kHeavy,
                        Thermal::kTrapping, Thermal::kSleeping}) {
    EXPECT_EQ(ThermalNamed(Name(level)), level);
  }
  for (MemoryPressure level : {MemoryPressure::kNormal, MemoryPressure::kWarn,
                               MemoryPressure::kCritical}) {
    EXPECT_EQ(MemoryPressureNamed(Name(level)), level);
  }
  EXPECT_EQ(Name(Thermal::kHeavy), "heavy");
  EXPECT_FALSE(PowerSourceNamed("").has_value());
  EXPECT_FALSE(ThermalNamed("hot").has_value());
  EXPECT_FALSE(MemoryPressureNamed("Warn").has_value());
  EXPECT_EQ(ThermalOfState(0), Thermal::kNominal);
  EXPECT_EQ(ThermalOfState(2), Thermal::kHeavy);
  EXPECT_EQ(ThermalOfState(4), Thermal::kSleeping);
  EXPECT_FALSE(ThermalOfState(5).has_value());
  EXPECT_EQ(MemoryPressureOfLevel(1), MemoryPressure::kNormal);
  EXPECT_EQ(MemoryPressureOfLevel(2), MemoryPressure::kWarn);
  EXPECT_EQ(MemoryPressureOfLevel(4), MemoryPressure::kCritical);
  EXPECT_FALSE(MemoryPressureOfLevel(3).has_value());
  EXPECT_FALSE(MemoryPressureOfLevel(0).has_value());
}

namespace fs = std::filesystem;

class FileHostTest : public testing::Test {
 protected:
  void Write(const std::string& text) { std::ofstream(path_) << text; }

  const fs::path path_ = testing_support::FreshFolder("host") / "host.json";
  FileHost host_{path_};
};

TEST_F(FileHostTest, ReadsEveryMember) {
  Write(R"({"power_source": "battery", "battery_ratio": 0.5,
            "low_power_mode": true, "thermal": "heavy",
            "memory_pressure": "warn", "swap_used_bytes": 1024,
            "gpu_utilization_ratio": 0.75, "gpu_resets": 2,
            "wired_limit_bytes": 0, "user_idle_seconds": 3.5})");
  const Reading expected{PowerSource::kBattery,
                         0.5,
                         true,
                         Thermal::kHeavy,
                         MemoryPressure::kWarn,
                         1024,
                         0.75,
                         2,
                         0,
                         3.5};
  EXPECT_EQ(host_.Read(), expected);
}

TEST_F(FileHostTest, WhatIsMissingIsAbsentAndAHalfWrittenFileAsBefore) {
  EXPECT_EQ(host_.Read(), Reading());
  Write(R"({"thermal": "hot", "swap_used_bytes": "many"})");
  EXPECT_EQ(host_.Read(), Reading());
  Write(R"({"power_source": "battery"})");
  EXPECT_EQ(host_.Read().power_source, PowerSource::kBattery);
  Write(R"({"power_sou)");
  EXPECT_EQ(host_.Read().power_source, PowerSource::kBattery);
  Write(R"({"power_source": "mains"})");
  EXPECT_EQ(host_.Read().power_source, PowerSource::kMains);
  fs::remove(path_);
  EXPECT_EQ(host_.Read(), Reading());
}

class LinuxFilesTest : public testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << "\n";
  }
  void Supply(const std::string& name, const std::string& file,
              const std::string& text) {
    Write("sys/class/power_supply/" + name + "/" + file, text);
  }
  void Battery(const std::string& status) {
    Supply("BAT0", "type", "Battery");
    Supply("BAT0", "status", status);
    Supply("BAT0", "capacity", "62");
  }
  void Zone(int temperature) {
    const std::string zone = "sys/class/thermal/thermal_zone0/";
    Write(zone + "temp", std::to_string(temperature));
    Write(zone + "trip_point_0_type", "active");
    Write(zone + "trip_point_0_temp", "50000");
    Write(zone + "trip_point_1_type", "passive");
    Write(zone + "trip_point_1_temp", "80000");
    Write(zone + "trip_point_2_type", "critical");
    Write(zone + "trip_point_2_temp", "100000");
  }
  Reading Read() { return ReadLinuxFiles(root_); }

  const fs::path root_ = testing_support::FreshFolder("linux_files");
};

TEST_F(LinuxFilesTest, AMachineThatSaysNothingThenOneThingAfterTheOther) {
  EXPECT_EQ(Read(), Reading());
  EXPECT_FALSE(Read().low_power_mode.has_value());
  Write("sys/firmware/acpi/platform_profile", "low-power");
  EXPECT_EQ(Read().low_power_mode, true);
  Write("sys/firmware/acpi/platform_profile", "balanced");
  EXPECT_EQ(Read().low_power_mode, false);
  Write("sys/class/thermal/thermal_zone1/temp", "99000");
  EXPECT_FALSE(Read().thermal.has_value());
  const auto level = [&](const std::string& some, const std::string& full) {
    Write("proc/pressure/memory", "some avg10=" + some +
                                      " avg60=0.00 avg300=0.00 total=1\n"
                                      "full avg10=" +
                                      full + " avg60=0.00 avg300=0.00 total=1");
    return Read().memory_pressure;
  };
  EXPECT_EQ(level("0.00", "0.00"), MemoryPressure::kNormal);
  EXPECT_EQ(level("12.50", "3.00"), MemoryPressure::kWarn);
  EXPECT_EQ(level("40.00", "20.00"), MemoryPressure::kCritical);
  Write("proc/meminfo",
        "MemTotal: 100 kB\nSwapTotal:   2048 kB\n"
        "SwapFree:    1024 kB");
  EXPECT_EQ(Read().swap_used_bytes, 1 << 20);
  Write("sys/class/drm/card0/device/gpu_busy_percent", "7");
  Write("sys/class/drm/card1/device/gpu_busy_percent", "93");
  EXPECT_EQ(Read().gpu_utilization_ratio, 0.93);
}

TEST_F(LinuxFilesTest, ALaptopThatChargesAndUnplugged) {
  Battery("Charging");
  EXPECT_EQ(Read().power_source, PowerSource::kMains);
  Battery("Discharging");
  Supply("AC", "type", "Mains");
  Supply("AC", "online", "0");
  EXPECT_EQ(Read().power_source, PowerSource::kBattery);
  EXPECT_EQ(Read().battery_ratio, 0.62);
  Supply("AC", "online", "1");
  EXPECT_EQ(Read().power_source, PowerSource::kMains)
      << "a weak charger lets the battery sink";
}

TEST_F(LinuxFilesTest, AMousesBatteryIsNotTheMachines) {
  Battery("Discharging");
  Supply("BAT0", "scope", "Device");
  EXPECT_FALSE(Read().power_source.has_value());
  EXPECT_FALSE(Read().battery_ratio.has_value());
}

TEST_F(LinuxFilesTest, TheHighestTripPointPassed) {
  Zone(60'000);
  EXPECT_EQ(Read().thermal, Thermal::kNominal) << "a fan is no trouble";
  Zone(80'000);
  EXPECT_EQ(Read().thermal, Thermal::kModerate);
  Zone(101'000);
  EXPECT_EQ(Read().thermal, Thermal::kTrapping);
}

TEST(Machine, HasABootIdMemoryAndCores) {
  EXPECT_EQ(BootId(), BootId());
  EXPECT_EQ(BootId().size(), 36) << BootId();
  EXPECT_EQ(BootId().find_first_not_of("0123456789abcdef-"), std::string::npos);
  EXPECT_GT(PhysicalMemory(), int64_t{1} << 28);
  EXPECT_LT(PhysicalMemory(), int64_t{1} << 50);
  const Cores cores = CountCores();
  EXPECT_GE(cores.all, 1);
  EXPECT_LE(cores.fast.value_or(0) + cores.efficient.value_or(0), cores.all);
}

TEST(Architecture, IsThatOfThisProgram) {
#if defined(__aarch64__) || defined(__arm64__)
  EXPECT_EQ(Architecture(), "arm64");
#elif defined(__x86_64__)
  EXPECT_EQ(Architecture(), "x86_64");
#else
  EXPECT_NE(Architecture(), "");
#endif
}

TEST(Machine, IsAMacOrNoMac) {
#ifdef __APPLE__
  EXPECT_NE(MacosVersion(), "");
  EXPECT_EQ(IsTranslated(), false);
#else
  EXPECT_EQ(MacosVersion(), "");
  EXPECT_EQ(IsTranslated(), std::nullopt);
  EXPECT_EQ(GpuCores(), std::nullopt);
#endif
}

constexpr char kTable[] =
    "overlay / overlay rw,relatime 0 0\n"
    "/dev/disk1 /srv ext4 rw 0 0\n"
    "nas:/models /srv/ann/models nfs4 ro,vers=4.2 0 0\n"
    "ann@far: /mnt/my\\040disk fuse.sshfs rw 0 0\n"
    "/dev/disk2 /data xfs rw 0 0\n"
    "tmpfs /data tmpfs rw 0 0\n"
    "\n"
    "broken\n";

std::string TypeAt(const fs::path& path) {
  const auto mount = MountOf(path, ParseMounts(kTable));
  return mount ? mount->type : "none";
}

TEST(Mounts, TheDeepestOrTheLatestHoldsAPath) {
  EXPECT_EQ(TypeAt("/"), "overlay");
  EXPECT_EQ(TypeAt("/usr/lib"), "overlay");
  EXPECT_EQ(TypeAt("/srv/ann/there/is/none"), "ext4");
  EXPECT_EQ(TypeAt("/srv/ann/models/llama"), "nfs4");
  EXPECT_EQ(TypeAt("/srv/ann/../ann/models"), "nfs4");
  EXPECT_EQ(TypeAt("/srvs"), "overlay");
  EXPECT_EQ(MountOf("/x", {}), std::nullopt);
  EXPECT_EQ(TypeAt("/data/set"), "tmpfs");
}

TEST(Mounts, KnowsANetworkVolumeItsSourceAndWhetherItIsReadOnly) {
  const auto models = MountOf("/srv/ann/models", ParseMounts(kTable)).value();
  EXPECT_TRUE(models.network);
  EXPECT_TRUE(models.read_only);
  EXPECT_EQ(models.source, "nas:/models");
  const auto disk = MountOf("/mnt/my disk/a", ParseMounts(kTable)).value();
  EXPECT_TRUE(disk.network);
  EXPECT_FALSE(disk.read_only);
  EXPECT_EQ(disk.point, "/mnt/my disk");
  for (const char* type : {"nfs", "nfs4", "cifs", "smbfs", "smb3", "afpfs",
                           "fuse.sshfs", "webdav", "lustre", "macfuse"}) {
    EXPECT_TRUE(IsNetworkType(type)) << type;
  }
  for (const char* type : {"apfs", "hfs", "ext4", "xfs", "zfs", "tmpfs",
                           "overlay", "fuse.ntfs", ""}) {
    EXPECT_FALSE(IsNetworkType(type)) << type;
  }
}

class LinksTest : public testing::Test {
 protected:
  std::vector<Mount> Table() const {
    return {{"/", "apfs", "disk", false, false},
            {(folder_ / "away").string(), "nfs", "nas:/x", true, false}};
  }
  const fs::path folder_ =
      fs::canonical(testing_support::FreshFolder("mounts"));
};

TEST_F(LinksTest, AreFollowedToTheVolumeTheyNameAndNoFurther) {
  fs::create_directory_symlink(folder_ / "away" / "cache", folder_ / "one");
  fs::create_directory_symlink("one", folder_ / "two");
  EXPECT_EQ(MountOf(folder_ / "two" / "x", Table())->type, "nfs");
  EXPECT_EQ(MountOf(folder_ / "three" / "x", Table())->type, "apfs");
  fs::create_directory_symlink("b", folder_ / "a");
  fs::create_directory_symlink("a", folder_ / "b");
  EXPECT_EQ(MountOf(folder_ / "a" / "x", Table())->type, "apfs");
}

TEST(ListMounts, HasTheRootsVolume) {
  const std::vector<Mount> table = ListMounts();
  ASSERT_FALSE(table.empty());
  const auto root = MountOf("/", table);
  ASSERT_TRUE(root.has_value());
  EXPECT_EQ(root->point, "/");
  EXPECT_NE(root->type, "");
}

TEST(PlatformTest, TheFootprintGrowsWithTouchedMemory) {
  constexpr size_t kBytes = 64 << 20;
  const int64_t before = ProcessFootprintBytes();
  std::vector<char> memory(kBytes);
  std::memset(memory.data(), 1, kBytes);
  const int64_t after = ProcessFootprintBytes();
  EXPECT_GT(before, 0);
  EXPECT_GE(after - before, static_cast<int64_t>(kBytes / 2));
  EXPECT_EQ(memory[kBytes - 1], 1);
}

TEST(PlatformTest, ResidentMemoryGrowsWithTouchedMemory) {
  constexpr int64_t kBytes = 64 << 20;
  const int64_t before = ReadProcessUsage().resident_bytes.value();
  std::vector<char> memory(kBytes);
  std::memset(memory.data(), 1, kBytes);
  EXPECT_GT(before, 0);
  EXPECT_GE(ReadProcessUsage().resident_bytes.value() - before, kBytes / 2);
  EXPECT_EQ(memory[kBytes - 1], 1);
}

TEST(PlatformTest, CountsTheOpenDescriptors) {
  const ProcessUsage before = ReadProcessUsage();
  const int first = open("/dev/null", O_RDONLY), second = dup(first);
  ASSERT_GE(second, 0);
  EXPECT_EQ(ReadProcessUsage().open_descriptors.value(),
            before.open_descriptors.value() + 2);
  close(first);
  close(second);
  EXPECT_EQ(ReadProcessUsage().open_descriptors, before.open_descriptors);
  EXPECT_GT(before.most_descriptors.value(), before.open_descriptors.value());
}

TEST(PlatformTest, CpuTimeGrowsWithWork) {
  const double before = ReadProcessUsage().cpu_seconds.value();
  const absl::Time end = absl::Now() + absl::Seconds(60);
  while (ReadProcessUsage().cpu_seconds.value() < before + 0.05 &&
         absl::Now() < end) {
  }
  EXPECT_GE(ReadProcessUsage().cpu_seconds.value(), before + 0.05);
}

// The kernel keeps the machine's start to a second.
TEST(PlatformTest, DescribesTheMachineAndItsProcess) {
  const double start = ReadProcessUsage().start_time_seconds.value();
  const double now = absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch());
  EXPECT_LE(start, now + 2);
  EXPECT_GE(start, now - 3600);
  EXPECT_EQ(ReadProcessUsage().start_time_seconds, start);
  EXPECT_GT(PhysicalMemoryBytes(), int64_t{1} << 28);
  EXPECT_FALSE(ProcessorName().empty());
  EXPECT_THAT(OperatingSystem(), testing::ContainsRegex("^[A-Z][a-z]+ [0-9]"));
}

const Process* Find(const std::vector<Process>& all, int64_t pid) {
  const auto found =
      std::find_if(all.begin(), all.end(),
                   [&](const Process& process) { return process.pid == pid; });
  return found == all.end() ? nullptr : &*found;
}

TEST(ListProcesses, HasThisOneWithItsParentNameAndMemory) {
  constexpr size_t kBytes = 64 << 20;
  std::vector<char> memory(kBytes);
  std::memset(memory.data(), 1, kBytes);
  const std::vector<Process> all = ListProcesses();
  const Process* self = Find(all, getpid());
  ASSERT_NE(self, nullptr);
  EXPECT_EQ(self->parent, getppid());
  EXPECT_NE(self->name, "");
  EXPECT_GE(self->memory_bytes.value_or(0), static_cast<int64_t>(kBytes));
  EXPECT_EQ(memory[kBytes - 1], 1);
  EXPECT_EQ(Find(ListProcesses(), 0), nullptr);
  EXPECT_GE(ListProcesses().size(), 1u);
}

TEST(GpuUsers, AreToldOrNot) {
  const auto users = ListGpuUsers();
  if (!users) GTEST_SKIP() << "no GPU here, or not told";
  EXPECT_THAT(*users, testing::Not(testing::Contains(getpid())));
}

TEST(OpenHostTest, SaysNothingThatCannotBe) {
  const std::unique_ptr<Host> host = OpenHost();
  const Reading reading = host->Read();
  const auto ratio = [](std::optional<double> value) {
    return value.value_or(0) >= 0 && value.value_or(1) <= 1;
  };
  EXPECT_TRUE(ratio(reading.battery_ratio));
  EXPECT_TRUE(ratio(reading.gpu_utilization_ratio));
  ASSERT_TRUE(reading.swap_used_bytes.has_value()) << "every system has it";
  EXPECT_GE(*reading.swap_used_bytes, 0);
  EXPECT_GE(reading.wired_limit_bytes.value_or(0), 0);
  EXPECT_GE(reading.user_idle_seconds.value_or(0), 0);
}

TEST(GpuUtilizationTest, IsThatOfAReading) {
  const std::optional<double> ratio = GpuUtilization();
  EXPECT_EQ(ratio.has_value(),
            OpenHost()->Read().gpu_utilization_ratio.has_value());
  EXPECT_GE(ratio.value_or(0), 0);
  EXPECT_LE(ratio.value_or(0), 1);
}

TEST(OpenHostTest, IsKeptAwakeAndLetGo) {
  const std::unique_ptr<Host> host = OpenHost();
  for (int i = 0; i < 2; ++i) {
    const std::unique_ptr<Awake> awake = host->KeepAwake("a test");
#ifdef __APPLE__
    EXPECT_NE(awake, nullptr);
#else
    EXPECT_EQ(awake, nullptr);
#endif
  }
}

}  // namespace

}  // namespace mpsd::host
