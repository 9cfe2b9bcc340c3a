// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Facts from the operating system: the machine, this process, the machine's
// other processes and its file systems. Each system has a source of its own.
namespace mpsd::host {

// --- constant while the machine runs -----------------------------------------

// Identifies this boot of the machine. "" if the system has no such id.
std::string BootId();

// Bytes of memory in the machine; 0 if unknown.
int64_t PhysicalMemoryBytes();

// This program's instruction set: "arm64", "x86_64" …
std::string Architecture();

// Whether the system translates this program for the processor (Rosetta);
// nullopt if it never does or if that is unknown.
std::optional<bool> IsTranslated();

// "26.1"; "" on a machine that is not a Mac.
std::string MacosVersion();

// Processor cores that the system may use. Apple's chips have two kinds.
struct Cores {
  int all = 0;  // 0 if unknown
  std::optional<int> fast, efficient;
};
Cores CountCores();

// GPU cores of Apple's chip; nullopt if unknown, as on Linux.
std::optional<int> GpuCores();

// Whether the machine has an NVIDIA card with its driver.
bool HasNvidiaCard();

std::string ProcessorName();

// "Linux 6.1.0 x86_64"; "macOS 26.1 (25B78), Darwin 25.1.0 arm64", with the
// build, on which Metal's results may depend.
std::string OperatingSystem();

// --- this process ------------------------------------------------------------

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

// Limits of this process and its children; absent: unlimited or unknown.
struct ProcessLimits {
  std::optional<int64_t> descriptors;  // the soft limit
  std::optional<int64_t> processes;    // of this user; Linux counts threads too
};
ProcessLimits ReadProcessLimits();

// --- other processes, as far as the system lets this user see them -----------

struct Process {
  int64_t pid = 0;
  int64_t parent = 0;
  std::string name;  // any bytes that the program chose
  // The process's private memory; absent if the system does not report it, as
  // for another user's process on a Mac.
  std::optional<int64_t> memory_bytes;
};

// All processes; takes some milliseconds per hundred.
std::vector<Process> ListProcesses();

// The processes that have the GPU open; absent if the system does not show all
// of them to this user, or the machine has no GPU.
std::optional<std::vector<int64_t>> ListGpuUsers();

// --- file systems ------------------------------------------------------------

struct Mount {
  std::string point;   // the mounted folder, such as "/"
  std::string type;    // "apfs", "ext4", "nfs4" …
  std::string source;  // the device, or the server and its folder
  bool network = false;
  bool read_only = false;
};

// All mounts, the latest last. None of them is accessed, so that a server that
// is down blocks no caller.
std::vector<Mount> ListMounts();

// The mount that holds the absolute `path`, whether or not the path exists.
// Links in the path are followed up to the first network volume, which is not
// accessed. nullopt if no mount of `table` holds the path.
std::optional<Mount> MountOf(const std::filesystem::path& path,
                             const std::vector<Mount>& table);

// Whether a file system of this type keeps its files on another machine: NFS,
// SMB, AFP, sshfs, cluster file systems …
bool IsNetworkType(std::string_view type);

// `text` is that of /proc/self/mounts.
std::vector<Mount> ParseMounts(std::string_view text);

}  // namespace mpsd::host
