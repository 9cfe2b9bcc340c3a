// SPDX-License-Identifier: Apache-2.0
#include "core/base/clock.h"

#include <gtest/gtest.h>

#include "absl/time/clock.h"

namespace mpsd::base {
namespace {

TEST(ClockTest, NowIsTheWallClock) {
  const absl::Time before = absl::Now();
  const absl::Time now = Clock::Real().Now();
  EXPECT_LE(before, now);
  EXPECT_LE(now, absl::Now());
}

TEST(ClockTest, MonotonicNeverGoesBack) {
  absl::Duration last = Clock::Real().Monotonic();
  for (int i = 0; i < 1000; ++i) {
    const absl::Duration next = Clock::Real().Monotonic();
    ASSERT_LE(last, next);
    last = next;
  }
}

}  // namespace
}  // namespace mpsd::base
