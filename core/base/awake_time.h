// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_BASE_AWAKE_TIME_H_
#define MPSD_CORE_BASE_AWAKE_TIME_H_

#include "absl/time/time.h"

namespace mpsd::base {

// Time since an arbitrary start that never jumps and stands still while the
// machine sleeps: what another process has had to work in. Of Clock's times
// (clock.h) one jumps and the other counts on.
absl::Duration AwakeTime();

}  // namespace mpsd::base

#endif  // MPSD_CORE_BASE_AWAKE_TIME_H_
