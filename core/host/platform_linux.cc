// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/host/platform.h"

namespace mpsd::host {
namespace {

// The number of kB after `key` in a file of "Key:   123 kB" lines.
int64_t KilobytesOf(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(key, 0) != 0) continue;
    const std::vector<std::string> parts = absl::StrSplit(
        line.substr(key.size()), absl::ByAnyChar(" \t"), absl::SkipEmpty());
    int64_t value = 0;
    if (!parts.empty() && absl::SimpleAtoi(parts[0], &value)) return value;
  }
  return 0;
}

// A number of /proc/self/stat by its position in proc(5), counted from 1, which
// must be at least 3.
std::optional<int64_t> StatNumber(size_t place) {
  std::ifstream file("/proc/self/stat");
  std::string line;
  std::getline(file, line);
  // The second field, the program's name in brackets, may contain spaces.
  const size_t name_end = line.rfind(") ");
  if (name_end == std::string::npos) return std::nullopt;
  const std::vector<std::string> parts =
      absl::StrSplit(line.substr(name_end + 2), ' ');
  int64_t value = 0;
  if (place - 3 >= parts.size() ||
      !absl::SimpleAtoi(parts[place - 3], &value)) {
    return std::nullopt;
  }
  return value;
}

// When the machine started, in seconds since 1970.
std::optional<int64_t> BootTime() {
  std::ifstream file("/proc/stat");
  const std::string key = "btime ";
  for (std::string line; std::getline(file, line);) {
    int64_t value = 0;
    if (line.rfind(key, 0) == 0 &&
        absl::SimpleAtoi(line.substr(key.size()), &value)) {
      return value;
    }
  }
  return std::nullopt;
}

// Without the descriptor that reads the folder itself.
std::optional<int64_t> OpenDescriptors() {
  std::error_code error;
  int64_t count = -1;
  std::filesystem::directory_iterator entries("/proc/self/fd", error);
  for (; !error && entries != std::filesystem::directory_iterator();
       entries.increment(error)) {
    ++count;
  }
  if (error || count < 0) return std::nullopt;
  return count;
}

}  // namespace

ProcessUsage ReadProcessUsage() {
  constexpr size_t kStartTime = 22, kResident = 24;  // proc(5)
  ProcessUsage usage;
  if (const std::optional<int64_t> pages = StatNumber(kResident)) {
    usage.resident_bytes = *pages * sysconf(_SC_PAGESIZE);
  }
  rusage times;
  if (getrusage(RUSAGE_SELF, &times) == 0) {
    usage.cpu_seconds =
        static_cast<double>(times.ru_utime.tv_sec + times.ru_stime.tv_sec) +
        static_cast<double>(times.ru_utime.tv_usec + times.ru_stime.tv_usec) /
            1e6;
  }
  usage.open_descriptors = OpenDescriptors();
  rlimit descriptors;
  if (getrlimit(RLIMIT_NOFILE, &descriptors) == 0) {
    usage.most_descriptors = static_cast<int64_t>(descriptors.rlim_cur);
  }
  const std::optional<int64_t> boot = BootTime(),
                               ticks = StatNumber(kStartTime);
  if (boot && ticks) {
    usage.start_time_seconds =
        static_cast<double>(*boot) +
        static_cast<double>(*ticks) / static_cast<double>(sysconf(_SC_CLK_TCK));
  }
  return usage;
}

int64_t ProcessFootprintBytes() {
  constexpr const char* kStatus = "/proc/self/status";
  return 1024 *
         (KilobytesOf(kStatus, "RssAnon:") + KilobytesOf(kStatus, "RssShmem:"));
}

int64_t PhysicalMemoryBytes() {
  return static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
}

std::string ProcessorName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "unknown processor";
}

std::string OperatingSystem() {
  utsname name;
  if (uname(&name) != 0) return "unknown";
  return absl::StrCat(name.sysname, " ", name.release, " ", name.machine);
}

}  // namespace mpsd::host
