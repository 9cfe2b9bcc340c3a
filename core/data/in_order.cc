// SPDX-License-Identifier: Apache-2.0
#include "core/data/in_order.h"

#ifdef __APPLE__
#include <sys/sysctl.h>
#endif

#include <algorithm>
#include <atomic>

namespace mpsd::data {
namespace {

std::atomic<int> set_threads{0};

}  // namespace

void SetWorkThreads(int threads) { set_threads = threads; }

int WorkThreads() {
  if (const int threads = set_threads; threads > 0) return threads;
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
