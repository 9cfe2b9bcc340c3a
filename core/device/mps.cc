// SPDX-License-Identifier: Apache-2.0
// Calls MPS through torch's hooks interface, which exists in every build of
// libtorch: this file compiles and is tested on Linux, where the hooks answer
// "no MPS".
#include <ATen/Context.h>
#include <ATen/detail/MPSHooksInterface.h>
#include <c10/core/CachingDeviceAllocator.h>

#include <algorithm>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "core/device/device.h"
#include "core/host/host.h"
#include "core/host/machine.h"

namespace mpsd::device {
namespace {

class MpsDevice : public Device {
 public:
  at::Device torch_device() const override { return at::Device(at::kMPS, 0); }
  std::string name() const override { return "mps"; }
  std::string description() const override {
    return absl::StrCat(host::ProcessorName(), ", ",
                        hooks().getRecommendedMaxMemory() >> 20,
                        " MiB recommended for the GPU");
  }
  void Synchronize() override { hooks().deviceSynchronize(); }
  void Commit() override { hooks().commitStream(); }
  Memory GetMemory() const override {
    Memory memory;
    memory.current_allocated = hooks().getCurrentAllocatedMemory();
    memory.driver_allocated = hooks().getDriverAllocatedMemory();
    memory.recommended_max = hooks().getRecommendedMaxMemory();
    peak_ = std::max(peak_, *memory.current_allocated);
    memory.peak_allocated = peak_;
    if (c10::DeviceAllocator* allocator = StatisticalAllocator()) {
      constexpr size_t kAll = 0;  // StatType::AGGREGATE
      memory.peak_allocated =
          allocator->getDeviceStats(0).allocated_bytes[kAll].peak;
    }
    return memory;
  }
  std::optional<double> utilization_ratio() const override {
    return host::GpuUtilization();
  }
  void ResetPeak() override {
    peak_ = 0;
    if (c10::DeviceAllocator* allocator = StatisticalAllocator()) {
      allocator->resetPeakStats(0);
    }
  }
  void EmptyCache() override { hooks().emptyCache(); }
  // at::manual_seed did not reach MPS before torch 2.13 (pytorch#164571), so
  // Seed seeds the MPS generator explicitly.
  void Seed(uint64_t seed) override {
    at::manual_seed(seed);
    at::Generator generator = hooks().getDefaultGenerator();
    std::lock_guard<std::mutex> lock(generator.mutex());
    generator.set_current_seed(seed);
  }
  at::Tensor RngState() const override {
    at::Generator generator = hooks().getDefaultGenerator();
    std::lock_guard<std::mutex> lock(generator.mutex());
    return generator.get_state();
  }
  void SetRngState(const at::Tensor& state) override {
    at::Generator generator = hooks().getDefaultGenerator();
    std::lock_guard<std::mutex> lock(generator.mutex());
    generator.set_state(state);
  }

 private:
  static const at::MPSHooksInterface& hooks() {
    return at::detail::getMPSHooks();
  }
  // torch's allocator keeps the peak since 2.13 (pytorch#186748); null before.
  static c10::DeviceAllocator* StatisticalAllocator() {
    return dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(at::kMPS));
  }
  mutable int64_t peak_ = 0;  // the highest sample
};

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> OpenMps() {
  if (!at::globalContext().hasMPS()) {
    return absl::FailedPreconditionError(
        "no MPS device: it needs an Apple-silicon Mac with macOS 15 or later "
        "and an arm64 build of mpsd-worker; use \"device\": \"cpu\" to train "
        "without it");
  }
  return std::make_unique<MpsDevice>();
}

}  // namespace mpsd::device
