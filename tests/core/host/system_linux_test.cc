// SPDX-License-Identifier: Apache-2.0
// The contract of OpenHost, whichever system implements it.
#include <gtest/gtest.h>

#include <optional>

#include "core/host/host.h"

namespace mpsd::host {
namespace {

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
