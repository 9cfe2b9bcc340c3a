// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "server/jobs/worker_launcher.h"
#include "tests/fakes/fake_clock.h"

namespace mpsd::jobs {
namespace {

constexpr absl::Duration kConfigured = absl::Minutes(10);

class HangLimitTest : public testing::Test {
 protected:
  absl::Duration After(absl::Duration duration) {
    clock_.Advance(duration);
    return clock_.Monotonic();
  }
  fakes::FakeClock clock_;
  HangLimit limit_{kConfigured, absl::ZeroDuration(), clock_.Monotonic()};
};

TEST_F(HangLimitTest, IsAsConfiguredForAQuickWorker) {
  EXPECT_EQ(limit_.deadline(), kConfigured);
  for (int i = 0; i < 100; ++i) limit_.Stepped(After(absl::Seconds(5)), 5);
  EXPECT_EQ(limit_.limit(), kConfigured);
  EXPECT_EQ(limit_.deadline(), clock_.Monotonic() + kConfigured);
}

TEST_F(HangLimitTest, GrowsWithTheSlowestStep) {
  for (int i = 0; i < 15; ++i) limit_.Heard(After(absl::Minutes(1)));
  limit_.Stepped(After(absl::Minutes(1)), 16 * 60);
  EXPECT_EQ(limit_.limit(), absl::Minutes(48));
  limit_.Stepped(After(absl::Minutes(1)), 60);  // and stays
  EXPECT_EQ(limit_.limit(), absl::Minutes(48));
}

TEST_F(HangLimitTest, GrowsWithASilenceThatTheWorkerBroke) {
  limit_.Heard(After(absl::Minutes(9)));
  EXPECT_EQ(limit_.limit(), absl::Minutes(27));
  EXPECT_EQ(limit_.heard_at(), absl::Minutes(9));
}

TEST_F(HangLimitTest, KnowsWhatAnEarlierAttemptTook) {
  const HangLimit limit(kConfigured, absl::Minutes(20), absl::ZeroDuration());
  EXPECT_EQ(limit.limit(), absl::Hours(1));
  for (const double seconds : {1e30, HUGE_VAL, std::nan("")}) {
    const HangLimit bounded(kConfigured, absl::Seconds(seconds),
                            absl::ZeroDuration());
    EXPECT_LE(bounded.limit(), absl::Hours(3)) << seconds;
  }
}

TEST_F(HangLimitTest, AWorkersNumbersAreBoundedByWhatPassed) {
  for (const double seconds : {1e30, -1e30, -1.0, HUGE_VAL, std::nan("")}) {
    limit_.Stepped(After(absl::Seconds(1)), seconds);
  }
  EXPECT_EQ(limit_.limit(), kConfigured);
}

}  // namespace
}  // namespace mpsd::jobs
