// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_DEFAULT_PLACES_H_
#define MPSD_SERVER_DEFAULT_PLACES_H_

#include <filesystem>

namespace mpsd {

// ~/.local/state/mpsd; on macOS ~/Library/Application Support/mpsd. Empty if
// HOME is not set.
std::filesystem::path DefaultStateDir();

// A file that every user may lock: on a Mac /Users/Shared/mpsd-gpu.lock, on
// Linux with a CUDA device /var/tmp/mpsd-gpu.lock. Empty without a GPU.
std::filesystem::path DefaultDeviceLock();

// mpsd-worker in the folder of the running program.
std::filesystem::path DefaultWorker();

}  // namespace mpsd

#endif  // MPSD_SERVER_DEFAULT_PLACES_H_
