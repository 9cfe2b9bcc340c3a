// SPDX-License-Identifier: Apache-2.0
#include "core/host/file_host.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace mpsd::host {
namespace {

namespace fs = std::filesystem;

class FileHostTest : public testing::Test {
 protected:
  ~FileHostTest() override { fs::remove(path_); }
  void Write(const std::string& text) { std::ofstream(path_) << text; }

  const fs::path path_ = fs::path(testing::TempDir()) /
                         ("host-" + std::to_string(getpid()) + ".json");
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

TEST_F(FileHostTest, WhatIsMissingIsAbsent) {
  EXPECT_EQ(host_.Read(), Reading());
  Write(R"({"thermal": "hot", "swap_used_bytes": "many"})");
  EXPECT_EQ(host_.Read(), Reading());
}

TEST_F(FileHostTest, AHalfWrittenFileIsAsBefore) {
  Write(R"({"power_source": "battery"})");
  EXPECT_EQ(host_.Read().power_source, PowerSource::kBattery);
  Write(R"({"power_sou)");
  EXPECT_EQ(host_.Read().power_source, PowerSource::kBattery);
  Write(R"({"power_source": "mains"})");
  EXPECT_EQ(host_.Read().power_source, PowerSource::kMains);
  fs::remove(path_);
  EXPECT_EQ(host_.Read(), Reading());
}

}  // namespace
}  // namespace mpsd::host
