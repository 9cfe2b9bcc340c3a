// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/host/traits.h"

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

// What torch and the machine have for one kind of accelerator.
struct Backend {
  std::string name;        // "mps", "cuda"
  bool built = false;      // torch was built with it
  bool available = false;  // and torch finds a device
  std::string device;      // the chip or card, if available
  std::string problem;     // why not available, human-readable
};

// MPS and CUDA. Opens only available devices, which takes a second or less.
std::vector<Backend> ListBackends();

// What OpenBest would open, as far as is known without opening anything: a
// Mac's MPS, else a CUDA card that torch was built for, else the CPU.
backend::Choice LikelyBest();

}  // namespace mpsd::device
