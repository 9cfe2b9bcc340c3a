// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_HOST_LINUX_FILES_H_
#define MPSD_CORE_HOST_LINUX_FILES_H_

#include <filesystem>

#include "core/host/host.h"

namespace mpsd::host {

// The state that files in /proc and /sys below `root` ("/" on a real machine)
// report: power_supply, thermal zones with their trip points, platform_profile,
// memory pressure (PSI), swap, amdgpu's gpu_busy_percent. Only reads files:
// compiles and is tested on every system.
Reading ReadLinuxFiles(const std::filesystem::path& root);

}  // namespace mpsd::host

#endif  // MPSD_CORE_HOST_LINUX_FILES_H_
