// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_HOST_LINUX_FILES_H_
#define MPSD_CORE_HOST_LINUX_FILES_H_

#include <filesystem>

#include "core/host/host.h"

namespace mpsd::host {

// What /proc and /sys below `root` ("/" on a real machine) say: power_supply,
// thermal zones with their trip points, platform_profile, the pressure of
// memory (PSI), swap, gpu_busy_percent of amdgpu. Pure reading: it compiles and
// is tested everywhere.
Reading ReadLinuxFiles(const std::filesystem::path& root);

}  // namespace mpsd::host

#endif  // MPSD_CORE_HOST_LINUX_FILES_H_
