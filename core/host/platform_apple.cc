// SPDX-License-Identifier: Apache-2.0
#include <libproc.h>
#include <sys/proc_info.h>
#include <sys/resource.h>
#include <sys/sysctl.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <vector>

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

// The call without a buffer returns more bytes than the list has, so that
// descriptors opened since have room.
std::optional<int64_t> OpenDescriptors() {
  const int room = proc_pidinfo(getpid(), PROC_PIDLISTFDS, 0, nullptr, 0);
  if (room <= 0) return std::nullopt;
  std::vector<proc_fdinfo> list(static_cast<size_t>(room) /
                                sizeof(proc_fdinfo));
  const int bytes =
      proc_pidinfo(getpid(), PROC_PIDLISTFDS, 0, list.data(),
                   static_cast<int>(list.size() * sizeof(proc_fdinfo)));
  if (bytes <= 0) return std::nullopt;
  return static_cast<int64_t>(static_cast<size_t>(bytes) / sizeof(proc_fdinfo));
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

ProcessUsage ReadProcessUsage() {
  ProcessUsage usage;
  rusage_info_v4 memory;
  if (proc_pid_rusage(getpid(), RUSAGE_INFO_V4,
                      reinterpret_cast<rusage_info_t*>(&memory)) == 0) {
    usage.resident_bytes = static_cast<int64_t>(memory.ri_resident_size);
  }
  // rusage_info_v4 has these times too, but in ticks of the processor.
  rusage times;
  if (getrusage(RUSAGE_SELF, &times) == 0) {
    usage.cpu_seconds =
        static_cast<double>(times.ru_utime.tv_sec + times.ru_stime.tv_sec) +
        static_cast<double>(times.ru_utime.tv_usec + times.ru_stime.tv_usec) /
            1e6;
  }
  usage.open_descriptors = OpenDescriptors();
  rlimit descriptors;
  if (getrlimit(RLIMIT_NOFILE, &descriptors) == 0) {
    usage.most_descriptors = static_cast<int64_t>(descriptors.rlim_cur);
  }
  proc_bsdinfo process;
  if (proc_pidinfo(getpid(), PROC_PIDTBSDINFO, 0, &process, sizeof process) ==
      static_cast<int>(sizeof process)) {
    usage.start_time_seconds =
        static_cast<double>(process.pbi_start_tvsec) +
        static_cast<double>(process.pbi_start_tvusec) / 1e6;
  }
  return usage;
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
