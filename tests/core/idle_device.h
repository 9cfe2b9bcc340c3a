// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/device/device.h"

namespace mpsd {
inline namespace testing_support {

// The host's memory as a device of another name, of which nothing is asked.
class IdleDevice : public device::Device {
 public:
  at::Device torch_device() const override { return at::kCPU; }
  std::string name() const override { return "mps"; }
  std::string description() const override { return ""; }
  void Synchronize() override {}
  void Commit() override {}
  device::Memory GetMemory() const override { return {}; }
  void ResetPeak() override {}
  void EmptyCache() override {}
  void Seed(uint64_t) override {}
  at::Tensor RngState() const override { return {}; }
  void SetRngState(const at::Tensor&) override {}
};

}  // namespace testing_support
}  // namespace mpsd
