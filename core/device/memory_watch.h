// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_DEVICE_MEMORY_WATCH_H_
#define MPSD_CORE_DEVICE_MEMORY_WATCH_H_

#include <cstdint>
#include <optional>
#include <string>

#include "core/device/device.h"

namespace mpsd::device {

// Follows a run's memory from step to step: the peaks, and whether the driver's
// memory beyond live tensors keeps growing (compiled graphs, heap
// fragmentation, a leak).
class MemoryWatch {
 public:
  // Bytes; absent if the device has no such counter; growth is also absent
  // during the first steps.
  struct Summary {
    std::optional<int64_t> peak_allocated;
    std::optional<int64_t> peak_driver;
    // Growth since the warm-up of the overhead: what the driver holds beyond
    // live tensors.
    std::optional<int64_t> overhead_growth;
  };

  // Called after each step. Returns a sentence for the job's log the first time
  // that the driver holds nearly all the memory that the machine recommends,
  // and the first time that the overhead has grown by a tenth of the
  // recommended memory.
  std::optional<std::string> Observe(const Memory& memory);

  const Summary& summary() const { return summary_; }

 private:
  int64_t steps_ = 0;
  std::optional<int64_t> baseline_;  // overhead after the warm-up
  bool told_full_ = false, told_growth_ = false;
  Summary summary_;
};

}  // namespace mpsd::device

#endif  // MPSD_CORE_DEVICE_MEMORY_WATCH_H_
