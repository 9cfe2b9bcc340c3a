// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/host_state.h"

#include <gtest/gtest.h>

namespace mpsd::rpc {
namespace {

TEST(HostState, WhatIsAbsentStaysAbsent) {
  v1::HostReading out;
  ToProto(host::Reading(), out);
  EXPECT_EQ(out.ByteSizeLong(), 0);
}

TEST(HostState, HasEveryField) {
  v1::HostReading out;
  ToProto(host::Reading{host::PowerSource::kMains, 0.5, false,
                        host::Thermal::kNominal, host::MemoryPressure::kNormal,
                        1, 0.25, 0, 0, 0},
          out);
  EXPECT_TRUE(out.has_on_battery());
  EXPECT_FALSE(out.on_battery());
  EXPECT_EQ(out.battery_ratio(), 0.5);
  EXPECT_TRUE(out.has_low_power_mode());
  EXPECT_EQ(out.thermal_level(), v1::THERMAL_LEVEL_NOMINAL);
  EXPECT_EQ(out.memory_pressure(), v1::MEMORY_PRESSURE_NORMAL);
  EXPECT_EQ(out.swap_used_bytes(), 1);
  EXPECT_EQ(out.gpu_utilization_ratio(), 0.25);
  EXPECT_TRUE(out.has_gpu_resets());
  EXPECT_TRUE(out.has_wired_limit_bytes());
  EXPECT_TRUE(out.has_user_idle_seconds());
}

TEST(HostState, LevelsKeepTheirOrder) {
  for (int level = 0; level < 5; ++level) {
    host::Reading reading;
    reading.thermal = static_cast<host::Thermal>(level);
    v1::HostReading out;
    ToProto(reading, out);
    EXPECT_EQ(static_cast<int>(out.thermal_level()), level + 1);
  }
  for (int level = 0; level < 3; ++level) {
    host::Reading reading;
    reading.memory_pressure = static_cast<host::MemoryPressure>(level);
    v1::HostReading out;
    ToProto(reading, out);
    EXPECT_EQ(static_cast<int>(out.memory_pressure()), level + 1);
  }
}

TEST(PauseState, NamesEveryReason) {
  jobs::Pause pause;
  for (jobs::PauseReason reason : jobs::kAllPauseReasons) {
    pause.reasons.insert(reason);
  }
  pause.held = true;
  pause.since = absl::FromUnixSeconds(7);
  v1::Pause out;
  ToProto(pause, out);
  ASSERT_EQ(out.reasons_size(), 5);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(static_cast<int>(out.reasons(i)), i + 1);
  }
  EXPECT_TRUE(out.held());
  EXPECT_EQ(out.since().seconds(), 7);
}

}  // namespace
}  // namespace mpsd::rpc
