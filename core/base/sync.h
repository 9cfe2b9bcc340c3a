// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_BASE_SYNC_H_
#define MPSD_CORE_BASE_SYNC_H_

#include <filesystem>
#include <vector>

#include "absl/status/status.h"

namespace mpsd::base {

// Flushes files and folders as far as the drive, all of one file system: after
// OK they survive a power cut. Waits for the drive as rarely as the system
// allows: Linux flushes the file system once where there are many, macOS hands
// every file to the drive and has it empty its cache once.
absl::Status SyncAll(const std::vector<std::filesystem::path>& paths);

}  // namespace mpsd::base

#endif  // MPSD_CORE_BASE_SYNC_H_
