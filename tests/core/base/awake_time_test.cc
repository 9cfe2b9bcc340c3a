// SPDX-License-Identifier: Apache-2.0
#include "core/base/awake_time.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "core/base/clock.h"

namespace mpsd::base {
namespace {

TEST(AwakeTime, GoesOnButNeverFasterThanTheClockThatCountsSleep) {
  const absl::Duration sleep_too = Clock::Real().Monotonic();
  const absl::Duration before = AwakeTime();
  usleep(2000);
  const absl::Duration passed = AwakeTime() - before;
  EXPECT_GE(passed, absl::Milliseconds(2));
  EXPECT_LE(passed, Clock::Real().Monotonic() - sleep_too);
  EXPECT_LE(AwakeTime(), Clock::Real().Monotonic() + absl::Seconds(1));
}

}  // namespace
}  // namespace mpsd::base
