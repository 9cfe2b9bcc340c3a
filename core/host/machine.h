// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_HOST_MACHINE_H_
#define MPSD_CORE_HOST_MACHINE_H_

#include <cstdint>
#include <string>

// Facts that do not change while the machine runs.
namespace mpsd::host {

// Names this boot of the machine; every boot has another name. "" where the
// system has none.
std::string BootId();

// Bytes of memory in the machine; 0 where the system does not say.
int64_t PhysicalMemory();

}  // namespace mpsd::host

#endif  // MPSD_CORE_HOST_MACHINE_H_
