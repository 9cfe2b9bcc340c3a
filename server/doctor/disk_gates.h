// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_DOCTOR_DISK_GATES_H_
#define MPSD_SERVER_DOCTOR_DISK_GATES_H_

#include <cstdint>
#include <filesystem>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/doctor/facts.h"

namespace mpsd::doctor {

struct DiskProbe {
  std::filesystem::path folder;
  int64_t bytes = 64 << 20;
  // After this time of writing, and again of reading, what was done counts: a
  // slow disk is measured by less.
  absl::Duration patience = absl::Seconds(3);
  // So much stays free beside the probe's file.
  int64_t keep_free_bytes = 0;
};

// Writes a file in the folder, flushes it to the disk, reads it again past the
// system's cache where the system can, and removes it; nobody else sees its
// name. ResourceExhausted, without a byte written, on a disk that is nearly
// full; the system's errors name the folder. Blocks; a disk that hangs holds
// the caller.
absl::StatusOr<DiskSpeed> MeasureDisk(const DiskProbe& probe);

}  // namespace mpsd::doctor

#endif  // MPSD_SERVER_DOCTOR_DISK_GATES_H_
