// SPDX-License-Identifier: Apache-2.0
#include "core/worker/cell.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>

namespace mpsd::worker {
namespace {

// glibc's getrlimit takes an enum for C++, macOS's an int.
using Resource = decltype(RLIMIT_CORE);

// A limit that cannot be set is left unchanged: a job is worth more than a
// bound that matters only after another failure.
void Lower(Resource resource, rlim_t most) {
  rlimit limit;
  if (getrlimit(resource, &limit) != 0) return;
  limit.rlim_max = std::min(limit.rlim_max, most);
  limit.rlim_cur = std::min(limit.rlim_cur, limit.rlim_max);
  setrlimit(resource, &limit);
}

}  // namespace

void EnterCell() {
  Lower(RLIMIT_CORE, 0);
  Lower(RLIMIT_NOFILE, kMostDescriptors);
  Lower(RLIMIT_NPROC, kMostProcesses);
  umask(077);
}

}  // namespace mpsd::worker
