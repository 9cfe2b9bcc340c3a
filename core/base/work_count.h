// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_BASE_WORK_COUNT_H_
#define MPSD_CORE_BASE_WORK_COUNT_H_

#include <cstdint>

namespace mpsd::base {

// Pieces of work that this process has done: a file read or a part of it
// hashed, a text tokenized, a tensor written, a layer or a micro-batch
// computed. A watcher of the process tells slow from stuck by this number. A
// piece must end in itself: nothing that waits or tries again may count.
// Thread-safe, and as cheap as an addition.
void CountWork();
int64_t WorkCount();

}  // namespace mpsd::base

#endif  // MPSD_CORE_BASE_WORK_COUNT_H_
