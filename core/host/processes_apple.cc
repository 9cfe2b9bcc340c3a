// SPDX-License-Identifier: Apache-2.0
// IOKit and CoreFoundation through declarations of the few C functions that are
// called, as in system_apple.cc.
#include <libproc.h>
#include <sys/proc_info.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "core/host/processes.h"

extern "C" {
using CFTypeRef = const void*;
using CFIndex = long;
extern CFTypeRef CFStringCreateWithCString(CFTypeRef allocator,
                                           const char* text, uint32_t encoding);
extern unsigned char CFStringGetCString(CFTypeRef string, char* buffer,
                                        CFIndex size, uint32_t encoding);
extern unsigned long CFGetTypeID(CFTypeRef object);
extern unsigned long CFStringGetTypeID(void);
extern void CFRelease(CFTypeRef object);
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
}

namespace mpsd::host {
namespace {

constexpr uint32_t kUtf8 = 0x08000100;  // kCFStringEncodingUTF8
constexpr unsigned int kMainPort = 0;   // kIOMainPortDefault

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
  CFTypeRef key =
      CFStringCreateWithCString(nullptr, "IOUserClientCreator", kUtf8);
  if (key == nullptr) return 0;
  CFTypeRef creator = IORegistryEntryCreateCFProperty(client, key, nullptr, 0);
  CFRelease(key);
  if (creator == nullptr) return 0;
  char text[256] = {};
  const bool read = CFGetTypeID(creator) == CFStringGetTypeID() &&
                    CFStringGetCString(creator, text, sizeof text, kUtf8);
  CFRelease(creator);
  constexpr std::string_view kHead = "pid ";
  if (!read || !std::string_view(text).starts_with(kHead)) return 0;
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

}  // namespace mpsd::host
