// SPDX-License-Identifier: Apache-2.0
#include <sys/sysctl.h>

#include <cstring>

#include "core/host/machine.h"

namespace mpsd::host {

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

}  // namespace mpsd::host
