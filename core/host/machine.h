// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_HOST_MACHINE_H_
#define MPSD_CORE_HOST_MACHINE_H_

#include <cstdint>
#include <optional>
#include <string>

// Facts that do not change while the machine runs.
namespace mpsd::host {

// Names this boot of the machine; every boot has another name. "" where the
// system has none.
std::string BootId();

// Bytes of memory in the machine; 0 where the system does not say.
int64_t PhysicalMemory();

// The instructions that this program is made of: "arm64", "x86_64" …
std::string Architecture();

// Whether the system translates this program's instructions for the processor
// at hand (Rosetta); nullopt for a system that translates none, and where it
// does not say.
std::optional<bool> IsTranslated();

// "26.1"; "" on a machine that is no Mac.
std::string MacosVersion();

// Processor cores that the system may use. Apple's chips have two kinds.
struct Cores {
  int all = 0;  // 0 where the system does not say
  std::optional<int> fast, efficient;
};
Cores CountCores();

// Cores of the GPU that Apple's chip has; nullopt where the system does not
// say, as on Linux.
std::optional<int> GpuCores();

// Whether the machine has a card of NVIDIA's with its driver.
bool HasNvidiaCard();

}  // namespace mpsd::host

#endif  // MPSD_CORE_HOST_MACHINE_H_
