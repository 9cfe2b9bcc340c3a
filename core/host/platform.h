// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_HOST_PLATFORM_H_
#define MPSD_CORE_HOST_PLATFORM_H_

#include <cstdint>
#include <optional>
#include <string>

// Facts from the operating system, with one .cc per system.
namespace mpsd::host {

// Memory of this process, bytes: on macOS the physical footprint (what Activity
// Monitor shows), on Linux the process's anonymous and shared pages, so that
// mapped model files do not count. 0 if unknown.
int64_t ProcessFootprintBytes();

// The system's counters for this process; a value that cannot be read is
// absent.
struct ProcessUsage {
  std::optional<int64_t> resident_bytes;  // including mapped files
  std::optional<double> cpu_seconds;      // user and system, all threads
  std::optional<int64_t> open_descriptors;
  std::optional<int64_t> most_descriptors;   // the soft limit
  std::optional<double> start_time_seconds;  // since 1970
};
// Reads no disk; takes less than a millisecond per thousand descriptors.
ProcessUsage ReadProcessUsage();

int64_t PhysicalMemoryBytes();

std::string ProcessorName();

// "Linux 6.1.0 x86_64"; "macOS 26.1 (25B78), Darwin 25.1.0 arm64", with the
// build, on which Metal's results may depend.
std::string OperatingSystem();

}  // namespace mpsd::host

#endif  // MPSD_CORE_HOST_PLATFORM_H_
