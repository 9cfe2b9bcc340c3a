// SPDX-License-Identifier: Apache-2.0
#include <sys/utsname.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <system_error>

#include "core/host/machine.h"

namespace mpsd::host {

std::string BootId() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

int64_t PhysicalMemory() {
  const int64_t pages = sysconf(_SC_PHYS_PAGES);
  const int64_t page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? pages * page : 0;
}

std::string Architecture() {
  utsname name;
  if (uname(&name) != 0) return "";
  const std::string machine = name.machine;
  return machine == "aarch64" ? "arm64" : machine;
}

std::optional<bool> IsTranslated() { return std::nullopt; }

std::string MacosVersion() { return ""; }

bool HasNvidiaCard() {
  std::error_code error;
  return std::filesystem::exists("/dev/nvidia0", error);
}

Cores CountCores() {
  const long count = sysconf(_SC_NPROCESSORS_ONLN);
  Cores cores;
  cores.all = count > 0 ? static_cast<int>(count) : 0;
  return cores;
}

}  // namespace mpsd::host
