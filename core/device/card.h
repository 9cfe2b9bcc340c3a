// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_DEVICE_CARD_H_
#define MPSD_CORE_DEVICE_CARD_H_

#include <cstdint>
#include <optional>
#include <string>

namespace mpsd::device {

// A CUDA card.
struct Card {
  std::string name;          // "NVIDIA H200"
  int64_t memory_bytes = 0;  // of all processes together
};

// The card that OpenCuda would open, as reported by NVIDIA's driver, the
// library `driver`: torch's interfaces without CUDA's headers give no name.
// Opens no device and takes none of its memory. nullopt without a card or a
// driver.
std::optional<Card> FirstCard(const char* driver = "libcuda.so.1");

}  // namespace mpsd::device

#endif  // MPSD_CORE_DEVICE_CARD_H_
