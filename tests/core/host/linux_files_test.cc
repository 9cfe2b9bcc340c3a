// SPDX-License-Identifier: Apache-2.0
#include "core/host/linux_files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace mpsd::host {
namespace {

namespace fs = std::filesystem;

class LinuxFilesTest : public testing::Test {
 protected:
  LinuxFilesTest()
      : root_(fs::path(testing::TempDir()) /
              ("linux-files-" + std::to_string(getpid()))) {
    fs::remove_all(root_);
  }
  ~LinuxFilesTest() override { fs::remove_all(root_); }

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

  const fs::path root_;
};

TEST_F(LinuxFilesTest, AMachineThatSaysNothing) {
  EXPECT_EQ(Read(), Reading());
}

TEST_F(LinuxFilesTest, ALaptopUnplugged) {
  Battery("Discharging");
  Supply("AC", "type", "Mains");
  Supply("AC", "online", "0");
  EXPECT_EQ(Read().power_source, PowerSource::kBattery);
  EXPECT_EQ(Read().battery_ratio, 0.62);
  Supply("AC", "online", "1");
  EXPECT_EQ(Read().power_source, PowerSource::kMains)
      << "a weak charger lets the battery sink";
}

TEST_F(LinuxFilesTest, ALaptopThatCharges) {
  Battery("Charging");
  EXPECT_EQ(Read().power_source, PowerSource::kMains);
}

TEST_F(LinuxFilesTest, AMousesBatteryIsNotTheMachines) {
  Battery("Discharging");
  Supply("BAT0", "scope", "Device");
  EXPECT_FALSE(Read().power_source.has_value());
  EXPECT_FALSE(Read().battery_ratio.has_value());
}

TEST_F(LinuxFilesTest, LowPowerModeIsTheFirmwaresProfile) {
  EXPECT_FALSE(Read().low_power_mode.has_value());
  Write("sys/firmware/acpi/platform_profile", "low-power");
  EXPECT_EQ(Read().low_power_mode, true);
  Write("sys/firmware/acpi/platform_profile", "balanced");
  EXPECT_EQ(Read().low_power_mode, false);
}

TEST_F(LinuxFilesTest, TheHighestTripPointPassed) {
  Zone(60'000);
  EXPECT_EQ(Read().thermal, Thermal::kNominal) << "a fan is no trouble";
  Zone(80'000);
  EXPECT_EQ(Read().thermal, Thermal::kModerate);
  Zone(101'000);
  EXPECT_EQ(Read().thermal, Thermal::kTrapping);
}

TEST_F(LinuxFilesTest, AZoneWithoutTripPointsSaysNothing) {
  Write("sys/class/thermal/thermal_zone1/temp", "99000");
  EXPECT_FALSE(Read().thermal.has_value());
}

TEST_F(LinuxFilesTest, MemoryPressure) {
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
}

TEST_F(LinuxFilesTest, SwapInUse) {
  Write("proc/meminfo",
        "MemTotal: 100 kB\nSwapTotal:   2048 kB\n"
        "SwapFree:    1024 kB");
  EXPECT_EQ(Read().swap_used_bytes, 1 << 20);
}

TEST_F(LinuxFilesTest, TheBusiestGpu) {
  Write("sys/class/drm/card0/device/gpu_busy_percent", "7");
  Write("sys/class/drm/card1/device/gpu_busy_percent", "93");
  EXPECT_EQ(Read().gpu_utilization_ratio, 0.93);
}

}  // namespace
}  // namespace mpsd::host
