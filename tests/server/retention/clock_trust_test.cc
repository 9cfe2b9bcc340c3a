// SPDX-License-Identifier: Apache-2.0
#include "server/retention/clock_trust.h"

#include <gtest/gtest.h>

namespace mpsd::retention {
namespace {

class ClockTrustTest : public testing::Test {
 protected:
  bool After(absl::Duration passed, absl::Duration jump = {}) {
    monotonic_ += passed;
    wall_ += passed + jump;
    return trust_.Look(wall_, monotonic_);
  }

  absl::Time wall_ = absl::FromUnixSeconds(1'800'000'000);
  absl::Duration monotonic_ = absl::Hours(5);
  ClockTrust trust_;
};

TEST_F(ClockTrustTest, AClockIsBelievedOnceItKeptStepForAnHour) {
  EXPECT_FALSE(After(absl::ZeroDuration()));
  EXPECT_FALSE(After(absl::Minutes(59)));
  EXPECT_TRUE(After(absl::Minutes(1)));
  EXPECT_TRUE(After(absl::Hours(100), absl::Seconds(30)));
}

TEST_F(ClockTrustTest, AJumpBeginsAnew) {
  After(absl::ZeroDuration());
  ASSERT_TRUE(After(absl::Hours(2)));
  EXPECT_FALSE(After(absl::Minutes(1), absl::Hours(24 * 400)));
  EXPECT_FALSE(After(absl::Minutes(59)));
  // Set right again: it jumped back.
  EXPECT_FALSE(After(absl::Minutes(1), -absl::Hours(24 * 400)));
  EXPECT_FALSE(After(absl::Minutes(59)));
  EXPECT_TRUE(After(absl::Minutes(1)));
}

// A clock that is set ahead in small steps is as wrong as one that jumps.
TEST_F(ClockTrustTest, ManySmallStepsAreAJump) {
  After(absl::ZeroDuration());
  ASSERT_TRUE(After(absl::Hours(2)));
  bool believed = true;
  for (int i = 0; i < 5; ++i) {
    believed = After(absl::Seconds(1), absl::Seconds(40)) && believed;
  }
  EXPECT_FALSE(believed);
}

}  // namespace
}  // namespace mpsd::retention
