// SPDX-License-Identifier: Apache-2.0
#include "server/descriptor_limit.h"

#include <sys/resource.h>

#include <algorithm>

#ifdef __APPLE__
#include <limits.h>
#include <sys/sysctl.h>
#endif

namespace mpsd {
namespace {

constexpr rlim_t kWanted = 65'536;
constexpr int kMostReserved = 512;
constexpr int kMostConnections = 4096;

// The highest limit that setrlimit accepts. On macOS the hard limit may be
// infinite while the kernel has a lower limit, beyond which setrlimit fails.
rlim_t Allowed(const rlimit& limit) {
  rlim_t allowed = std::min(limit.rlim_max, kWanted);
#ifdef __APPLE__
  int most = 0;
  size_t size = sizeof(most);
  if (sysctlbyname("kern.maxfilesperproc", &most, &size, nullptr, 0) != 0 ||
      most <= 0) {
    most = OPEN_MAX;
  }
  allowed = std::min(allowed, static_cast<rlim_t>(most));
#endif
  return allowed;
}

}  // namespace

int RaiseDescriptorLimit() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 256;
  const rlimit raised = {Allowed(limit), limit.rlim_max};
  if (raised.rlim_cur > limit.rlim_cur &&
      setrlimit(RLIMIT_NOFILE, &raised) == 0) {
    limit = raised;
  }
  return static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 1 << 30));
}

int FirstReservedDescriptor(int limit) {
  return std::min(limit - std::min(limit / 4, kMostReserved), kMostConnections);
}

}  // namespace mpsd
