// SPDX-License-Identifier: Apache-2.0
#include "core/base/clock.h"

#include <time.h>

#include "absl/time/clock.h"

namespace mpsd::base {
namespace {

#ifdef __APPLE__
// CLOCK_MONOTONIC counts through sleep on macOS, CLOCK_UPTIME_RAW does not.
constexpr clockid_t kSteady = CLOCK_MONOTONIC;
#else
constexpr clockid_t kSteady = CLOCK_BOOTTIME;
#endif

class RealClock : public Clock {
 public:
  absl::Time Now() const override { return absl::Now(); }
  absl::Duration Monotonic() const override {
    timespec now;
    clock_gettime(kSteady, &now);
    return absl::DurationFromTimespec(now);
  }
};

}  // namespace

const Clock& Clock::Real() {
  static const RealClock* clock = new RealClock;
  return *clock;
}

}  // namespace mpsd::base
