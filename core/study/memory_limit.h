// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_STUDY_MEMORY_LIMIT_H_
#define MPSD_CORE_STUDY_MEMORY_LIMIT_H_

#include <cstdint>

#include "core/study/measured_run.h"

namespace mpsd::study {

// What is held against a limit of the device's or the machine's memory: what
// the driver holds, else what live tensors take, else the process' footprint.
int64_t HeldBytes(const MemoryPeaks& peaks);
// "driver", "allocated", "footprint": what HeldBytes counts by.
const char* HeldBy(const MemoryPeaks& peaks);

// `share` of what the device recommends, else of the machine's memory.
int64_t MemoryLimit(const MemoryPeaks& peaks, double share);

}  // namespace mpsd::study

#endif  // MPSD_CORE_STUDY_MEMORY_LIMIT_H_
