// SPDX-License-Identifier: Apache-2.0
#include "core/base/clock.h"

#include <time.h>

#include <atomic>

#include "absl/time/clock.h"

namespace mpsd::base {
namespace {

#ifdef __APPLE__
// CLOCK_MONOTONIC counts through sleep on macOS; CLOCK_UPTIME_RAW, which is
// mach_absolute_time, does not.
constexpr clockid_t kSteady = CLOCK_MONOTONIC, kAwake = CLOCK_UPTIME_RAW;
#else
constexpr clockid_t kSteady = CLOCK_BOOTTIME, kAwake = CLOCK_MONOTONIC;
#endif

absl::Duration TimeOf(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return absl::DurationFromTimespec(now);
}

std::atomic<int64_t> g_work{0};

class RealClock : public Clock {
 public:
  absl::Time Now() const override { return absl::Now(); }
  absl::Duration Monotonic() const override { return TimeOf(kSteady); }
};

}  // namespace

const Clock& Clock::Real() {
  static const RealClock* clock = new RealClock;
  return *clock;
}

absl::Duration AwakeTime() { return TimeOf(kAwake); }

// Relaxed: the count orders nothing; readers only check whether it grew.
void CountWork() { g_work.fetch_add(1, std::memory_order_relaxed); }

int64_t WorkCount() { return g_work.load(std::memory_order_relaxed); }

}  // namespace mpsd::base
