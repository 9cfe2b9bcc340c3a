// SPDX-License-Identifier: Apache-2.0
#include <sys/sysctl.h>

#include <cstring>

#include "core/host/machine.h"

namespace mpsd::host {
namespace {

std::optional<int> Count(const char* name) {
  int value = 0;
  size_t size = sizeof value;
  if (sysctlbyname(name, &value, &size, nullptr, 0) != 0) return std::nullopt;
  return value;
}

}  // namespace

std::string BootId() {
  char uuid[64] = {};
  size_t size = sizeof uuid - 1;
  if (sysctlbyname("kern.bootsessionuuid", uuid, &size, nullptr, 0) != 0) {
    return "";
  }
  return std::string(uuid, strnlen(uuid, size));
}

int64_t PhysicalMemory() {
  int64_t bytes = 0;
  size_t size = sizeof bytes;
  if (sysctlbyname("hw.memsize", &bytes, &size, nullptr, 0) != 0) return 0;
  return bytes;
}

// The compiler's target, since a translated program sees an Intel machine.
std::string Architecture() {
#if defined(__arm64__)
  return "arm64";
#else
  return "x86_64";
#endif
}

// The name is missing on a Mac that cannot translate.
std::optional<bool> IsTranslated() {
  const std::optional<int> translated = Count("sysctl.proc_translated");
  if (!translated) return std::nullopt;
  return *translated != 0;
}

bool HasNvidiaCard() { return false; }

std::string MacosVersion() {
  char version[32] = {};
  size_t size = sizeof version - 1;
  if (sysctlbyname("kern.osproductversion", version, &size, nullptr, 0) != 0) {
    return "";
  }
  return std::string(version, strnlen(version, size));
}

// Level 0 is that of the fastest cores. An Intel Mac has no levels.
Cores CountCores() {
  Cores cores;
  cores.all = Count("hw.logicalcpu").value_or(0);
  cores.fast = Count("hw.perflevel0.logicalcpu");
  cores.efficient = Count("hw.perflevel1.logicalcpu");
  return cores;
}

}  // namespace mpsd::host
