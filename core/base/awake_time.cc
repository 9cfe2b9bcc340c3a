// SPDX-License-Identifier: Apache-2.0
#include "core/base/awake_time.h"

#include <time.h>

namespace mpsd::base {
namespace {

#ifdef __APPLE__
// CLOCK_UPTIME_RAW is mach_absolute_time; macOS's CLOCK_MONOTONIC counts
// through sleep.
constexpr clockid_t kAwake = CLOCK_UPTIME_RAW;
#else
constexpr clockid_t kAwake = CLOCK_MONOTONIC;
#endif

}  // namespace

absl::Duration AwakeTime() {
  timespec now;
  clock_gettime(kAwake, &now);
  return absl::DurationFromTimespec(now);
}

}  // namespace mpsd::base
