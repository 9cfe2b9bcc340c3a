// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_HOST_PROCESSES_H_
#define MPSD_CORE_HOST_PROCESSES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// The machine's other processes, as far as the system lets this user see them.
namespace mpsd::host {

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

// Limits of this process and its children; absent: unlimited or unknown.
struct ProcessLimits {
  std::optional<int64_t> descriptors;  // the soft limit
  std::optional<int64_t> processes;    // of this user; Linux counts threads too
};
ProcessLimits ReadProcessLimits();

}  // namespace mpsd::host

#endif  // MPSD_CORE_HOST_PROCESSES_H_
