// SPDX-License-Identifier: Apache-2.0
// IOKit, CoreFoundation and notify through declarations of the few C functions
// that are called: no framework header is needed to compile this.
#include <sys/sysctl.h>

#include <cstring>
#include <utility>

#include "core/host/host.h"
#include "core/host/machine.h"

extern "C" {
// CoreFoundation
using CFTypeRef = const void*;
using CFIndex = long;
extern CFTypeRef CFStringCreateWithCString(CFTypeRef allocator,
                                           const char* text, uint32_t encoding);
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

}  // namespace mpsd::host
