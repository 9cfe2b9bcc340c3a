// SPDX-License-Identifier: Apache-2.0
#include "core/study/memory_limit.h"

#include "core/host/platform.h"

namespace mpsd::study {

int64_t HeldBytes(const MemoryPeaks& peaks) {
  if (peaks.driver_bytes) return *peaks.driver_bytes;
  return peaks.allocated_bytes.value_or(peaks.footprint_bytes);
}

const char* HeldBy(const MemoryPeaks& peaks) {
  if (peaks.driver_bytes) return "driver";
  return peaks.allocated_bytes ? "allocated" : "footprint";
}

int64_t MemoryLimit(const MemoryPeaks& peaks, double share) {
  const int64_t all =
      peaks.recommended_max_bytes.value_or(host::PhysicalMemoryBytes());
  return static_cast<int64_t>(share * static_cast<double>(all));
}

}  // namespace mpsd::study
