// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_HOST_PROCESSES_H_
#define MPSD_CORE_HOST_PROCESSES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// What else runs on the machine, as far as its system tells this user.
namespace mpsd::host {

struct Process {
  int64_t pid = 0;
  int64_t parent = 0;
  std::string name;  // any bytes that its program chose
  // Memory that is the process' own; absent where the system does not tell it,
  // as of another user's process on a Mac.
  std::optional<int64_t> memory_bytes;
};

// Every process; takes some milliseconds a hundred.
std::vector<Process> ListProcesses();

// The processes that have the GPU open; absent where the system does not tell
// this user of all of them, or the machine has no GPU.
std::optional<std::vector<int64_t>> ListGpuUsers();

// The limits of this process and those that it starts; absent: none, or not
// told.
struct ProcessLimits {
  std::optional<int64_t> descriptors;  // the soft limit
  std::optional<int64_t> processes;    // of this user, threads as well on Linux
};
ProcessLimits ReadProcessLimits();

}  // namespace mpsd::host

#endif  // MPSD_CORE_HOST_PROCESSES_H_
