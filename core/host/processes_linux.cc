// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/host/processes.h"

namespace mpsd::host {
namespace {

namespace fs = std::filesystem;

// Pids as /proc lists them.
std::vector<int64_t> ListPids() {
  std::vector<int64_t> pids;
  std::error_code error;
  fs::directory_iterator entries("/proc", error);
  for (; !error && entries != fs::directory_iterator();
       entries.increment(error)) {
    int64_t pid = 0;
    if (absl::SimpleAtoi(entries->path().filename().string(), &pid)) {
      pids.push_back(pid);
    }
  }
  return pids;
}

// The number after the key of a line of /proc/PID/status.
int64_t NumberIn(const std::string& line) {
  int64_t number = 0;
  std::string text = line.substr(line.find(':') + 1);
  if (absl::EndsWith(text, " kB")) text.resize(text.size() - 3);
  return absl::SimpleAtoi(text, &number) ? number : 0;
}

// False for a process that has ended.
bool Read(int64_t pid, Process& process) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/status"));
  process.pid = pid;
  int64_t kilobytes = 0;
  bool has_memory = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("Name:")) {
      process.name = std::string(absl::StripAsciiWhitespace(line.substr(5)));
    } else if (line.starts_with("PPid:")) {
      process.parent = NumberIn(line);
    } else if (line.starts_with("RssAnon:") || line.starts_with("RssShmem:")) {
      kilobytes += NumberIn(line);
      has_memory = true;
    }
  }
  // The kernel's own threads have no memory.
  if (has_memory) process.memory_bytes = kilobytes * 1024;
  return !process.name.empty();
}

bool IsGpu(const std::string& path) {
  return path.starts_with("/dev/nvidia") ? path != "/dev/nvidiactl"
                                         : path == "/dev/kfd";
}

// nullopt if this user has no access.
std::optional<bool> HasGpuOpen(int64_t pid) {
  std::error_code error;
  fs::directory_iterator entries(absl::StrCat("/proc/", pid, "/fd"), error);
  if (error == std::errc::no_such_file_or_directory) return false;
  if (error) return std::nullopt;
  for (; !error && entries != fs::directory_iterator();
       entries.increment(error)) {
    std::error_code gone;
    if (IsGpu(fs::read_symlink(entries->path(), gone).string())) return true;
  }
  return false;
}

}  // namespace

std::vector<Process> ListProcesses() {
  std::vector<Process> processes;
  for (const int64_t pid : ListPids()) {
    Process process;
    if (Read(pid, process)) processes.push_back(std::move(process));
  }
  return processes;
}

std::optional<std::vector<int64_t>> ListGpuUsers() {
  std::error_code error;
  if (!fs::exists("/dev/nvidia0", error) && !fs::exists("/dev/kfd", error)) {
    return std::nullopt;
  }
  std::vector<int64_t> users;
  for (const int64_t pid : ListPids()) {
    const std::optional<bool> has = HasGpuOpen(pid);
    if (!has) return std::nullopt;
    if (*has) users.push_back(pid);
  }
  return users;
}

}  // namespace mpsd::host
