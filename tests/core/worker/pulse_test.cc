// SPDX-License-Identifier: Apache-2.0
#include "core/worker/pulse.h"

#include <gtest/gtest.h>

#include <atomic>

#include "absl/time/clock.h"
#include "core/base/work_count.h"

namespace mpsd::worker {
namespace {

constexpr absl::Duration kInterval = absl::Milliseconds(5);
constexpr absl::Duration kLong = absl::Seconds(30);

TEST(PulseTest, BeatsWhileWorkIsDone) {
  std::atomic<int> beats{0};
  Pulse pulse(kInterval, [&] { ++beats; });
  const absl::Time deadline = absl::Now() + kLong;
  while (beats < 3 && absl::Now() < deadline) {
    base::CountWork();
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_GE(beats, 3);
}

TEST(PulseTest, OneThatStandsStillHasNone) {
  std::atomic<int> beats{0};
  {
    Pulse pulse(kInterval, [&] { ++beats; });
    absl::SleepFor(40 * kInterval);
  }
  EXPECT_EQ(beats, 0);
}

TEST(PulseTest, EndsWithTheObject) {
  std::atomic<int> beats{0};
  {
    Pulse pulse(kLong, [&] { ++beats; });
  }  // at once, not after kLong
  base::CountWork();
  EXPECT_EQ(beats, 0);
}

}  // namespace
}  // namespace mpsd::worker
