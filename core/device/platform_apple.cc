// SPDX-License-Identifier: Apache-2.0
#include <libproc.h>
#include <sys/resource.h>
#include <sys/sysctl.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "core/device/platform.h"

// libobjc, without an Objective-C source.
extern "C" void* objc_autoreleasePoolPush(void);
extern "C" void objc_autoreleasePoolPop(void* pool);

namespace mpsd::device {

int64_t ProcessFootprintBytes() {
  rusage_info_v4 usage;
  if (proc_pid_rusage(getpid(), RUSAGE_INFO_V4,
                      reinterpret_cast<rusage_info_t*>(&usage)) != 0) {
    return 0;
  }
  return static_cast<int64_t>(usage.ri_phys_footprint);
}

int64_t PhysicalMemoryBytes() {
  int64_t bytes = 0;
  size_t size = sizeof bytes;
  if (sysctlbyname("hw.memsize", &bytes, &size, nullptr, 0) != 0) return 0;
  return bytes;
}

std::string ProcessorName() {
  char name[256];
  size_t size = sizeof name;
  if (sysctlbyname("machdep.cpu.brand_string", name, &size, nullptr, 0) != 0) {
    return "unknown processor";
  }
  return name;
}

std::string OperatingSystem() {
  utsname name;
  if (uname(&name) != 0) return "unknown";
  return absl::StrCat(name.sysname, " ", name.release, " ", name.machine);
}

StepScope::StepScope() : pool_(objc_autoreleasePoolPush()) {}
StepScope::~StepScope() { objc_autoreleasePoolPop(pool_); }

}  // namespace mpsd::device
