// SPDX-License-Identifier: Apache-2.0
#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/host/platform.h"

namespace mpsd::host {
namespace {

// The number of kB behind `key` in a file of "Key:   123 kB" lines.
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

}  // namespace

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
