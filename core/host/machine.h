// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_HOST_MACHINE_H_
#define MPSD_CORE_HOST_MACHINE_H_

#include <cstdint>
#include <optional>
#include <string>

// Facts that are constant while the machine runs.
namespace mpsd::host {

// Identifies this boot of the machine. "" if the system has no such id.
std::string BootId();

// Bytes of memory in the machine; 0 if unknown.
int64_t PhysicalMemory();

// This program's instruction set: "arm64", "x86_64" …
std::string Architecture();

// Whether the system translates this program for the processor (Rosetta);
// nullopt if it never does or if that is unknown.
std::optional<bool> IsTranslated();

// "26.1"; "" on a machine that is not a Mac.
std::string MacosVersion();

// Processor cores that the system may use. Apple's chips have two kinds.
struct Cores {
  int all = 0;  // 0 if unknown
  std::optional<int> fast, efficient;
};
Cores CountCores();

// GPU cores of Apple's chip; nullopt if unknown, as on Linux.
std::optional<int> GpuCores();

// Whether the machine has an NVIDIA card with its driver.
bool HasNvidiaCard();

}  // namespace mpsd::host

#endif  // MPSD_CORE_HOST_MACHINE_H_
