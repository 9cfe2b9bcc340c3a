// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

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

// Monotonic time that stops while the machine sleeps: it measures how long
// another process could work.
absl::Duration AwakeTime();

// Counts units of work done by this process: a file or a part of it read or
// hashed, a text tokenized, a tensor written, a layer or a micro-batch
// computed. A watchdog tells slow from stuck by this number, so waits and
// retries must not count. Thread-safe, and as cheap as an addition.
void CountWork();
int64_t WorkCount();

}  // namespace mpsd::base
