// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_BASE_WORK_COUNT_H_
#define MPSD_CORE_BASE_WORK_COUNT_H_

#include <cstdint>

namespace mpsd::base {

// Counts units of work done by this process: a file or a part of it read or
// hashed, a text tokenized, a tensor written, a layer or a micro-batch
// computed. A watchdog tells slow from stuck by this number, so waits and
// retries must not count. Thread-safe, and as cheap as an addition.
void CountWork();
int64_t WorkCount();

}  // namespace mpsd::base

#endif  // MPSD_CORE_BASE_WORK_COUNT_H_
