// SPDX-License-Identifier: Apache-2.0
#include <libproc.h>
#include <sys/mount.h>
#include <sys/param.h>
#include <sys/proc_info.h>
#include <sys/resource.h>
#include <sys/sysctl.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/host/host.h"
#include "core/host/machine.h"

// IOKit, CoreFoundation and notify through declarations of the few C functions
// that are called: no framework header is needed to compile this.

extern "C" {
// CoreFoundation
using CFTypeRef = const void*;
using CFIndex = long;
extern CFTypeRef CFStringCreateWithCString(CFTypeRef allocator,
                                           const char* text, uint32_t encoding);
extern unsigned char CFStringGetCString(CFTypeRef string, char* buffer,
                                        CFIndex size, uint32_t encoding);
extern unsigned long CFStringGetTypeID(void);
extern void CFRelease(CFTypeRef object);
extern unsigned char CFEqual(CFTypeRef a, CFTypeRef b);
extern unsigned long CFGetTypeID(CFTypeRef object);
extern unsigned long CFNumberGetTypeID(void);
extern unsigned long CFDictionaryGetTypeID(void);
extern unsigned char CFNumberGetValue(CFTypeRef number, CFIndex type,
                                      void* value);
extern CFTypeRef CFDictionaryGetValue(CFTypeRef dictionary, CFTypeRef key);
extern CFIndex CFArrayGetCount(CFTypeRef array);
extern CFTypeRef CFArrayGetValueAtIndex(CFTypeRef array, CFIndex index);
// IOKit
using io_object_t = unsigned int;
extern void* IOServiceMatching(const char* name);
extern int IOServiceGetMatchingServices(unsigned int main_port, void* matching,
                                        io_object_t* iterator);
extern io_object_t IOIteratorNext(io_object_t iterator);
extern int IOObjectRelease(io_object_t object);
extern int IORegistryEntryGetChildIterator(io_object_t entry, const char* plane,
                                           io_object_t* iterator);
extern CFTypeRef IORegistryEntryCreateCFProperty(io_object_t entry,
                                                 CFTypeRef key,
                                                 CFTypeRef allocator,
                                                 uint32_t options);
extern CFTypeRef IOPSCopyPowerSourcesInfo(void);
extern CFTypeRef IOPSCopyPowerSourcesList(CFTypeRef info);
extern CFTypeRef IOPSGetPowerSourceDescription(CFTypeRef info,
                                               CFTypeRef source);
extern CFTypeRef IOPSGetProvidingPowerSourceType(CFTypeRef info);
extern int IOPMAssertionCreateWithName(CFTypeRef type, uint32_t level,
                                       CFTypeRef name, uint32_t* id);
extern int IOPMAssertionRelease(uint32_t id);
// libSystem
extern uint32_t notify_register_check(const char* name, int* token);
extern uint32_t notify_get_state(int token, uint64_t* state);
}

namespace mpsd::host {
namespace {

constexpr uint32_t kUtf8 = 0x08000100;  // kCFStringEncodingUTF8
constexpr CFIndex kInt64 = 4;           // kCFNumberSInt64Type
constexpr uint32_t kAssertionOn = 255;  // kIOPMAssertionLevelOn
constexpr unsigned int kMainPort = 0;   // kIOMainPortDefault
constexpr uint32_t kNotifyOk = 0;       // NOTIFY_STATUS_OK
constexpr double kNanoseconds = 1e9;    // HIDIdleTime counts nanoseconds
constexpr int64_t kMebibyte = 1 << 20;  // unit of iogpu.wired_limit_mb

// Owns an object that a function with Create or Copy in its name returned.
class Owned {
 public:
  explicit Owned(CFTypeRef object) : object_(object) {}
  Owned(Owned&& other) : object_(std::exchange(other.object_, nullptr)) {}
  Owned& operator=(Owned&&) = delete;
  ~Owned() {
    if (object_ != nullptr) CFRelease(object_);
  }
  CFTypeRef get() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  CFTypeRef object_;
};

Owned Text(const char* text) {
  return Owned(CFStringCreateWithCString(nullptr, text, kUtf8));
}

std::optional<int64_t> Integer(CFTypeRef object) {
  int64_t value = 0;
  if (object == nullptr || CFGetTypeID(object) != CFNumberGetTypeID() ||
      !CFNumberGetValue(object, kInt64, &value)) {
    return std::nullopt;
  }
  return value;
}

std::optional<int64_t> Member(CFTypeRef dictionary, const char* key) {
  const Owned name = Text(key);
  return Integer(CFDictionaryGetValue(dictionary, name.get()));
}

// The property of the first service of this class that has one.
Owned Property(const char* service_class, const char* key) {
  io_object_t services = 0;
  // The call takes ownership of the matching dictionary.
  if (IOServiceGetMatchingServices(kMainPort, IOServiceMatching(service_class),
                                   &services) != 0) {
    return Owned(nullptr);
  }
  const Owned name = Text(key);
  CFTypeRef found = nullptr;
  while (io_object_t service = IOIteratorNext(services)) {
    if (found == nullptr) {
      found = IORegistryEntryCreateCFProperty(service, name.get(), nullptr, 0);
    }
    IOObjectRelease(service);
  }
  IOObjectRelease(services);
  return Owned(found);
}

void ReadGpu(Reading& reading) {
  const Owned statistics = Property("IOAccelerator", "PerformanceStatistics");
  if (!statistics || CFGetTypeID(statistics.get()) != CFDictionaryGetTypeID()) {
    return;
  }
  if (auto percent = Member(statistics.get(), "Device Utilization %")) {
    reading.gpu_utilization_ratio = static_cast<double>(*percent) / 100;
  }
  reading.gpu_resets = Member(statistics.get(), "recoveryCount");
}

// The charge of the first battery: a Mac has one, and perhaps a UPS.
std::optional<double> BatteryRatio(CFTypeRef info) {
  const Owned sources(IOPSCopyPowerSourcesList(info));
  const Owned type_key = Text("Type"), internal = Text("InternalBattery");
  const CFIndex count = sources ? CFArrayGetCount(sources.get()) : 0;
  for (CFIndex i = 0; i < count; ++i) {
    CFTypeRef source = IOPSGetPowerSourceDescription(
        info, CFArrayGetValueAtIndex(sources.get(), i));
    if (source == nullptr) continue;
    CFTypeRef type = CFDictionaryGetValue(source, type_key.get());
    if (type == nullptr || !CFEqual(type, internal.get())) continue;
    const auto current = Member(source, "Current Capacity");
    const auto most = Member(source, "Max Capacity");
    if (!current || !most || *most <= 0) return std::nullopt;
    return static_cast<double>(*current) / static_cast<double>(*most);
  }
  return std::nullopt;
}

void ReadPower(Reading& reading) {
  const Owned info(IOPSCopyPowerSourcesInfo());
  if (!info) return;
  // This string is not owned: "AC Power", "Battery Power" or "UPS Power".
  CFTypeRef type = IOPSGetProvidingPowerSourceType(info.get());
  const Owned mains = Text("AC Power");
  if (type != nullptr) {
    reading.power_source = CFEqual(type, mains.get()) ? PowerSource::kMains
                                                      : PowerSource::kBattery;
  }
  reading.battery_ratio = BatteryRatio(info.get());
}

// The state of a notification, registered once for the life of the process.
class NotifiedState {
 public:
  explicit NotifiedState(const char* name)
      : ok_(notify_register_check(name, &token_) == kNotifyOk) {}
  std::optional<uint64_t> Get() const {
    uint64_t state = 0;
    if (!ok_ || notify_get_state(token_, &state) != kNotifyOk) {
      return std::nullopt;
    }
    return state;
  }

 private:
  int token_ = -1;
  const bool ok_;
};

// An integer of 4 or 8 bytes; the machine is little-endian.
std::optional<int64_t> Sysctl(const char* name) {
  int64_t value = 0;
  size_t size = sizeof value;
  if (sysctlbyname(name, &value, &size, nullptr, 0) != 0) return std::nullopt;
  return value;
}

std::string SysctlText(const char* name, const char* otherwise) {
  char text[256] = {};
  size_t size = sizeof text - 1;
  return sysctlbyname(name, text, &size, nullptr, 0) == 0 ? text : otherwise;
}

void ReadMemory(Reading& reading) {
  if (auto level = Sysctl("kern.memorystatus_vm_pressure_level")) {
    reading.memory_pressure = MemoryPressureOfLevel(static_cast<int>(*level));
  }
  xsw_usage swap;
  size_t size = sizeof swap;
  if (sysctlbyname("vm.swapusage", &swap, &size, nullptr, 0) == 0) {
    reading.swap_used_bytes = static_cast<int64_t>(swap.xsu_used);
  }
  if (auto limit = Sysctl("iogpu.wired_limit_mb")) {
    reading.wired_limit_bytes = *limit * kMebibyte;
  }
}

class Assertion final : public Awake {
 public:
  explicit Assertion(uint32_t id) : id_(id) {}
  ~Assertion() override { IOPMAssertionRelease(id_); }

 private:
  const uint32_t id_;
};

class Mac final : public Host {
 public:
  Reading Read() override {
    Reading reading;
    ReadGpu(reading);
    ReadPower(reading);
    ReadMemory(reading);
    if (auto state = thermal_.Get()) {
      reading.thermal = ThermalOfState(*state);
    }
    if (auto state = low_power_.Get()) reading.low_power_mode = *state != 0;
    const Owned idle = Property("IOHIDSystem", "HIDIdleTime");
    if (auto nanoseconds = Integer(idle.get())) {
      reading.user_idle_seconds =
          static_cast<double>(*nanoseconds) / kNanoseconds;
    }
    return reading;
  }

  std::unique_ptr<Awake> KeepAwake(const std::string& why) override {
    const Owned type = Text("PreventUserIdleSystemSleep");
    const Owned name = Text(why.c_str());
    uint32_t id = 0;
    if (!name || IOPMAssertionCreateWithName(type.get(), kAssertionOn,
                                             name.get(), &id) != 0) {
      return nullptr;
    }
    return std::make_unique<Assertion>(id);
  }

 private:
  const NotifiedState thermal_{"com.apple.system.thermalpressurelevel"};
  const NotifiedState low_power_{"com.apple.system.lowpowermode"};
};

}  // namespace

std::unique_ptr<Host> OpenHost() { return std::make_unique<Mac>(); }

std::optional<double> GpuUtilization() {
  Reading reading;
  ReadGpu(reading);
  return reading.gpu_utilization_ratio;
}

std::optional<int> GpuCores() {
  const Owned property = Property("IOAccelerator", "gpu-core-count");
  const std::optional<int64_t> count = Integer(property.get());
  if (!count || *count <= 0) return std::nullopt;
  return static_cast<int>(*count);
}

std::string BootId() { return SysctlText("kern.bootsessionuuid", ""); }

int64_t PhysicalMemoryBytes() { return Sysctl("hw.memsize").value_or(0); }

// The compiler's target, since a translated program sees an Intel machine.
std::string Architecture() {
#if defined(__arm64__)
  return "arm64";
#else
  return "x86_64";
#endif
}

// The name is missing on a Mac that cannot translate.
std::optional<bool> IsTranslated() {
  const std::optional<int64_t> translated = Sysctl("sysctl.proc_translated");
  if (!translated) return std::nullopt;
  return *translated != 0;
}

bool HasNvidiaCard() { return false; }

std::string MacosVersion() { return SysctlText("kern.osproductversion", ""); }

namespace {

std::optional<int> Count(const char* name) {
  const std::optional<int64_t> count = Sysctl(name);
  if (!count) return std::nullopt;
  return static_cast<int>(*count);
}

}  // namespace

// Level 0 is that of the fastest cores. An Intel Mac has no levels.
Cores CountCores() {
  Cores cores;
  cores.all = Count("hw.logicalcpu").value_or(0);
  cores.fast = Count("hw.perflevel0.logicalcpu");
  cores.efficient = Count("hw.perflevel1.logicalcpu");
  return cores;
}

namespace {

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

std::string ProcessorName() {
  return SysctlText("machdep.cpu.brand_string", "unknown");
}

std::string OperatingSystem() {
  utsname name;
  if (uname(&name) != 0) return "unknown";
  return absl::StrCat("macOS ", SysctlText("kern.osproductversion", "unknown"),
                      " (", SysctlText("kern.osversion", "unknown"), "), ",
                      name.sysname, " ", name.release, " ", name.machine);
}

namespace {

std::vector<pid_t> ListPids() {
  const int room = proc_listallpids(nullptr, 0);
  if (room <= 0) return {};
  // Some more, for processes started meanwhile.
  std::vector<pid_t> pids(static_cast<size_t>(room) + 64);
  const int count = proc_listallpids(
      pids.data(), static_cast<int>(pids.size() * sizeof(pid_t)));
  pids.resize(static_cast<size_t>(std::max(count, 0)));
  return pids;
}

// "pid 612, WindowServer": the process that opened a client of the GPU, as the
// registry names it; 0 for any other text.
int64_t CreatorOf(io_object_t client) {
  const Owned key = Text("IOUserClientCreator");
  if (!key) return 0;
  const Owned creator(
      IORegistryEntryCreateCFProperty(client, key.get(), nullptr, 0));
  char text[256] = {};
  constexpr std::string_view kHead = "pid ";
  if (!creator || CFGetTypeID(creator.get()) != CFStringGetTypeID() ||
      !CFStringGetCString(creator.get(), text, sizeof text, kUtf8) ||
      !std::string_view(text).starts_with(kHead)) {
    return 0;
  }
  return std::strtoll(text + kHead.size(), nullptr, 10);
}

void AddClientsOf(io_object_t service, std::vector<int64_t>& pids) {
  io_object_t clients = 0;
  if (IORegistryEntryGetChildIterator(service, "IOService", &clients) != 0) {
    return;
  }
  while (io_object_t client = IOIteratorNext(clients)) {
    if (const int64_t pid = CreatorOf(client); pid > 0) pids.push_back(pid);
    IOObjectRelease(client);
  }
  IOObjectRelease(clients);
}

}  // namespace

std::vector<Process> ListProcesses() {
  std::vector<Process> processes;
  for (const pid_t pid : ListPids()) {
    // Reported for every user's processes, unlike the memory.
    proc_bsdshortinfo info;
    if (proc_pidinfo(pid, PROC_PIDT_SHORTBSDINFO, 0, &info, sizeof info) !=
        static_cast<int>(sizeof info)) {
      continue;
    }
    Process process;
    process.pid = pid;
    process.parent = info.pbsi_ppid;
    // The whole name, if the system reports it: the short one has 15 bytes.
    char name[2 * MAXCOMLEN + 1] = {};
    process.name =
        proc_name(pid, name, sizeof name) > 0
            ? std::string(name)
            : std::string(info.pbsi_comm,
                          strnlen(info.pbsi_comm, sizeof info.pbsi_comm));
    rusage_info_v4 usage;
    if (proc_pid_rusage(pid, RUSAGE_INFO_V4,
                        reinterpret_cast<rusage_info_t*>(&usage)) == 0) {
      process.memory_bytes = static_cast<int64_t>(usage.ri_phys_footprint);
    }
    processes.push_back(std::move(process));
  }
  return processes;
}

std::optional<std::vector<int64_t>> ListGpuUsers() {
  io_object_t services = 0;
  // The call takes ownership of the matching dictionary.
  if (IOServiceGetMatchingServices(
          kMainPort, IOServiceMatching("IOAccelerator"), &services) != 0) {
    return std::nullopt;
  }
  std::vector<int64_t> pids;
  bool has_gpu = false;
  while (io_object_t service = IOIteratorNext(services)) {
    has_gpu = true;
    AddClientsOf(service, pids);
    IOObjectRelease(service);
  }
  IOObjectRelease(services);
  if (!has_gpu) return std::nullopt;
  std::sort(pids.begin(), pids.end());
  pids.erase(std::unique(pids.begin(), pids.end()), pids.end());
  return pids;
}

// MNT_NOWAIT: the kernel's data, without accessing the volumes.
std::vector<Mount> ListMounts() {
  const int room = getfsstat(nullptr, 0, MNT_NOWAIT);
  if (room <= 0) return {};
  // Some more, for volumes mounted meanwhile.
  std::vector<struct statfs> list(static_cast<size_t>(room) + 8);
  const int count = getfsstat(
      list.data(), static_cast<int>(list.size() * sizeof(struct statfs)),
      MNT_NOWAIT);
  std::vector<Mount> mounts;
  for (int i = 0; i < count; ++i) {
    const struct statfs& entry = list[static_cast<size_t>(i)];
    Mount mount;
    mount.point = entry.f_mntonname;
    mount.type = entry.f_fstypename;
    mount.source = entry.f_mntfromname;
    // A FUSE volume may claim to be local.
    mount.network =
        (entry.f_flags & MNT_LOCAL) == 0 || IsNetworkType(mount.type);
    mount.read_only = (entry.f_flags & MNT_RDONLY) != 0;
    mounts.push_back(std::move(mount));
  }
  return mounts;
}

}  // namespace mpsd::host
