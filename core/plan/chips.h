// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_PLAN_CHIPS_H_
#define MPSD_CORE_PLAN_CHIPS_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "core/plan/facts.h"

namespace mpsd::plan {

// A chip's data-sheet figures, and the shares of them that training attains.
struct Chip {
  const char* name;   // as the system reports it: "Apple M2 Max", "NVIDIA H200"
  int64_t gpu_cores;  // 0: the name alone identifies the chip
  // Peaks: 10^12 operations per second of fp32 and bf16, 10^9 bytes per second
  // of memory.
  double fp32_tera, half_tera;
  double giga_bytes;
  const char* memory;  // the sizes it is sold with, GB
  // Shares of the peaks: a large matrix product in fp32 and in bf16, and a pass
  // over memory.
  double fp32_share, half_share, bytes_share;
  const char* source;
};

// The table: Apple's M1 to M4 by name and GPU cores, then NVIDIA's.
std::span<const Chip> Chips();

// The chip of this name with this many GPU cores; if the cores are unknown (0)
// or not in the table, the one of this name with the fewest. Null if the table
// lacks the name. A card's name may continue with its memory ("NVIDIA H100 80GB
// HBM3").
const Chip* FindChip(std::string_view name, int64_t gpu_cores);

// The rates that training attains on the chip.
Rates RatesOf(const Chip& chip);

}  // namespace mpsd::plan

#endif  // MPSD_CORE_PLAN_CHIPS_H_
