// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_BASE_AWAKE_TIME_H_
#define MPSD_CORE_BASE_AWAKE_TIME_H_

#include "absl/time/time.h"

namespace mpsd::base {

// Monotonic time that stops while the machine sleeps: it measures how long
// another process could work. Clock (clock.h) has no such time: wall time
// jumps, and Monotonic() counts through sleep.
absl::Duration AwakeTime();

}  // namespace mpsd::base

#endif  // MPSD_CORE_BASE_AWAKE_TIME_H_
