// SPDX-License-Identifier: Apache-2.0
#include "core/data/in_order.h"

#ifdef __APPLE__
#include <sys/sysctl.h>
#endif

#include <algorithm>

namespace mpsd::data {

int WorkThreads() {
#ifdef __APPLE__
  // On a Mac only the performance cores (perflevel0).
  int cores = 0;
  size_t size = sizeof cores;
  if (sysctlbyname("hw.perflevel0.logicalcpu", &cores, &size, nullptr, 0) ==
          0 &&
      cores > 0) {
    return cores;
  }
#endif
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

}  // namespace mpsd::data
