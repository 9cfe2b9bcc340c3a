// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_BASE_SYNC_H_
#define MPSD_CORE_BASE_SYNC_H_

#include <filesystem>
#include <vector>

#include "absl/status/status.h"

namespace mpsd::base {

// Flushes files and folders of one file system to the drive: after OK they
// survive a power cut. Waits for the drive as rarely as the system allows: for
// many paths Linux flushes the file system once; macOS writes every file to the
// drive and then flushes the drive's cache once.
absl::Status SyncAll(const std::vector<std::filesystem::path>& paths);

}  // namespace mpsd::base

#endif  // MPSD_CORE_BASE_SYNC_H_
