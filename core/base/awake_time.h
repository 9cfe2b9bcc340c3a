// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_BASE_AWAKE_TIME_H_
#define MPSD_CORE_BASE_AWAKE_TIME_H_

#include "absl/time/time.h"

namespace mpsd::base {

// Time since an arbitrary start that never jumps and stands still while the
// machine sleeps: it measures how long another process could work. Neither of
// Clock's times does (clock.h): wall time jumps, Monotonic() counts through
// sleep.
absl::Duration AwakeTime();

}  // namespace mpsd::base

#endif  // MPSD_CORE_BASE_AWAKE_TIME_H_
