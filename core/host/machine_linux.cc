// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/host/host.h"
#include "core/host/machine.h"

namespace mpsd::host {

std::string BootId() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

int64_t PhysicalMemoryBytes() {
  const int64_t pages = sysconf(_SC_PHYS_PAGES);
  const int64_t page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? pages * page : 0;
}

std::string Architecture() {
  utsname name;
  if (uname(&name) != 0) return "";
  const std::string machine = name.machine;
  return machine == "aarch64" ? "arm64" : machine;
}

std::optional<bool> IsTranslated() { return std::nullopt; }

std::string MacosVersion() { return ""; }

bool HasNvidiaCard() {
  std::error_code error;
  return std::filesystem::exists("/dev/nvidia0", error);
}

Cores CountCores() {
  const long count = sysconf(_SC_NPROCESSORS_ONLN);
  Cores cores;
  cores.all = count > 0 ? static_cast<int>(count) : 0;
  return cores;
}

namespace {

// A number of /proc/self/stat by its position in proc(5), counted from 1, which
// must be at least 3.
std::optional<int64_t> StatNumber(size_t place) {
  std::ifstream file("/proc/self/stat");
  std::string line;
  std::getline(file, line);
  // The second field, the program's name in brackets, may contain spaces.
  const size_t name_end = line.rfind(") ");
  if (name_end == std::string::npos) return std::nullopt;
  const std::vector<std::string> parts =
      absl::StrSplit(line.substr(name_end + 2), ' ');
  int64_t value = 0;
  if (place - 3 >= parts.size() ||
      !absl::SimpleAtoi(parts[place - 3], &value)) {
    return std::nullopt;
  }
  return value;
}

// When the machine started, in seconds since 1970.
std::optional<int64_t> BootTime() {
  std::ifstream file("/proc/stat");
  const std::string key = "btime ";
  for (std::string line; std::getline(file, line);) {
    int64_t value = 0;
    if (line.rfind(key, 0) == 0 &&
        absl::SimpleAtoi(line.substr(key.size()), &value)) {
      return value;
    }
  }
  return std::nullopt;
}

// Without the descriptor that reads the folder itself.
std::optional<int64_t> OpenDescriptors() {
  std::error_code error;
  int64_t count = -1;
  std::filesystem::directory_iterator entries("/proc/self/fd", error);
  for (; !error && entries != std::filesystem::directory_iterator();
       entries.increment(error)) {
    ++count;
  }
  if (error || count < 0) return std::nullopt;
  return count;
}

}  // namespace

ProcessUsage ReadProcessUsage() {
  constexpr size_t kStartTime = 22, kResident = 24;  // proc(5)
  ProcessUsage usage;
  if (const std::optional<int64_t> pages = StatNumber(kResident)) {
    usage.resident_bytes = *pages * sysconf(_SC_PAGESIZE);
  }
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
  const std::optional<int64_t> boot = BootTime(),
                               ticks = StatNumber(kStartTime);
  if (boot && ticks) {
    usage.start_time_seconds =
        static_cast<double>(*boot) +
        static_cast<double>(*ticks) / static_cast<double>(sysconf(_SC_CLK_TCK));
  }
  return usage;
}

std::string ProcessorName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "unknown processor";
}

std::string OperatingSystem() {
  utsname name;
  if (uname(&name) != 0) return "unknown";
  return absl::StrCat(name.sysname, " ", name.release, " ", name.machine);
}

namespace {

namespace fs = std::filesystem;

// Pids as /proc lists them.
std::vector<int64_t> ListPids() {
  std::vector<int64_t> pids;
  std::error_code error;
  fs::directory_iterator entries("/proc", error);
  for (; !error && entries != fs::directory_iterator();
       entries.increment(error)) {
    int64_t pid = 0;
    if (absl::SimpleAtoi(entries->path().filename().string(), &pid)) {
      pids.push_back(pid);
    }
  }
  return pids;
}

// The number after the key of a line of /proc/PID/status.
int64_t NumberIn(const std::string& line) {
  int64_t number = 0;
  std::string text = line.substr(line.find(':') + 1);
  if (absl::EndsWith(text, " kB")) text.resize(text.size() - 3);
  return absl::SimpleAtoi(text, &number) ? number : 0;
}

// False for a process that has ended.
bool Read(int64_t pid, Process& process) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/status"));
  process.pid = pid;
  int64_t kilobytes = 0;
  bool has_memory = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("Name:")) {
      process.name = std::string(absl::StripAsciiWhitespace(line.substr(5)));
    } else if (line.starts_with("PPid:")) {
      process.parent = NumberIn(line);
    } else if (line.starts_with("RssAnon:") || line.starts_with("RssShmem:")) {
      kilobytes += NumberIn(line);
      has_memory = true;
    }
  }
  // The kernel's own threads have no memory.
  if (has_memory) process.memory_bytes = kilobytes * 1024;
  return !process.name.empty();
}

bool IsGpu(const std::string& path) {
  return path.starts_with("/dev/nvidia") ? path != "/dev/nvidiactl"
                                         : path == "/dev/kfd";
}

// nullopt if this user has no access.
std::optional<bool> HasGpuOpen(int64_t pid) {
  std::error_code error;
  fs::directory_iterator entries(absl::StrCat("/proc/", pid, "/fd"), error);
  if (error == std::errc::no_such_file_or_directory) return false;
  if (error) return std::nullopt;
  for (; !error && entries != fs::directory_iterator();
       entries.increment(error)) {
    std::error_code gone;
    if (IsGpu(fs::read_symlink(entries->path(), gone).string())) return true;
  }
  return false;
}

}  // namespace

int64_t ProcessFootprintBytes() {
  Process self;
  return Read(getpid(), self) ? self.memory_bytes.value_or(0) : 0;
}

std::vector<Process> ListProcesses() {
  std::vector<Process> processes;
  for (const int64_t pid : ListPids()) {
    Process process;
    if (Read(pid, process)) processes.push_back(std::move(process));
  }
  return processes;
}

std::optional<std::vector<int64_t>> ListGpuUsers() {
  std::error_code error;
  if (!fs::exists("/dev/nvidia0", error) && !fs::exists("/dev/kfd", error)) {
    return std::nullopt;
  }
  std::vector<int64_t> users;
  for (const int64_t pid : ListPids()) {
    const std::optional<bool> has = HasGpuOpen(pid);
    if (!has) return std::nullopt;
    if (*has) users.push_back(pid);
  }
  return users;
}

std::vector<Mount> ListMounts() {
  std::ifstream file("/proc/self/mounts");
  return ParseMounts(std::string(std::istreambuf_iterator<char>(file), {}));
}

namespace {

class Linux final : public Host {
 public:
  Reading Read() override { return ReadLinuxFiles("/"); }
  // A server does not sleep, and a desktop only if its user has configured it.
  std::unique_ptr<Awake> KeepAwake(const std::string&) override {
    return nullptr;
  }
};

}  // namespace

std::unique_ptr<Host> OpenHost() { return std::make_unique<Linux>(); }

std::optional<double> GpuUtilization() {
  return ReadLinuxFiles("/").gpu_utilization_ratio;
}

std::optional<int> GpuCores() { return std::nullopt; }

}  // namespace mpsd::host
