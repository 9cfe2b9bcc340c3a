// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>

#include "core/host/processes.h"

namespace mpsd::host {
namespace {

// glibc's getrlimit takes an enum for C++, macOS's an int.
using Resource = decltype(RLIMIT_NOFILE);

std::optional<int64_t> SoftLimit(Resource resource) {
  rlimit limit;
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return std::nullopt;
  }
  return static_cast<int64_t>(limit.rlim_cur);
}

}  // namespace

ProcessLimits ReadProcessLimits() {
  return {SoftLimit(RLIMIT_NOFILE), SoftLimit(RLIMIT_NPROC)};
}

}  // namespace mpsd::host
