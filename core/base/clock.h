// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_BASE_CLOCK_H_
#define MPSD_CORE_BASE_CLOCK_H_

#include "absl/time/time.h"

namespace mpsd::base {

// The two times a program needs, injectable. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  // Wall time, for rows, logs and manifests. May jump.
  virtual absl::Time Now() const = 0;
  // Time since an arbitrary start that never jumps back and counts while the
  // machine sleeps; for intervals and timeouts.
  virtual absl::Duration Monotonic() const = 0;

  static const Clock& Real();
};

}  // namespace mpsd::base

#endif  // MPSD_CORE_BASE_CLOCK_H_
