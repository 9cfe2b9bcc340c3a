// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_PLANNER_DISK_GATES_H_
#define MPSD_SERVER_PLANNER_DISK_GATES_H_

#include <cstdint>
#include <filesystem>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/planner/doctor_facts.h"

namespace mpsd::doctor {

struct DiskProbe {
  std::filesystem::path folder;
  int64_t bytes = 64 << 20;
  // After this time of writing, and again of reading, the measurement ends
  // early: a slow disk is measured with less data.
  absl::Duration patience = absl::Seconds(3);
  // This much stays free in addition to the probe's file.
  int64_t keep_free_bytes = 0;
};

// Writes a file in the folder, flushes it to the disk, reads it again bypassing
// the system's cache if possible, and removes it; its name is never visible.
// ResourceExhausted, without a byte written, on a disk that is nearly full; the
// system's errors name the folder. Blocks; a disk that hangs blocks the caller.
absl::StatusOr<DiskSpeed> MeasureDisk(const DiskProbe& probe);

}  // namespace mpsd::doctor

#endif  // MPSD_SERVER_PLANNER_DISK_GATES_H_
