// SPDX-License-Identifier: Apache-2.0
#include <libproc.h>
#include <sys/resource.h>
#include <sys/sysctl.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "core/host/platform.h"

namespace mpsd::host {
namespace {

std::string Text(const char* name) {
  char text[256];
  size_t size = sizeof text;
  if (sysctlbyname(name, text, &size, nullptr, 0) != 0) return "unknown";
  return text;
}

}  // namespace

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

std::string ProcessorName() { return Text("machdep.cpu.brand_string"); }

std::string OperatingSystem() {
  utsname name;
  if (uname(&name) != 0) return "unknown";
  return absl::StrCat("macOS ", Text("kern.osproductversion"), " (",
                      Text("kern.osversion"), "), ", name.sysname, " ",
                      name.release, " ", name.machine);
}

}  // namespace mpsd::host
