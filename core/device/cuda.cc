// SPDX-License-Identifier: Apache-2.0
// libtorch_cuda is not linked: if the library is next to libtorch_cpu it is
// loaded on first use and registers its hooks and kernels. Only generic
// interfaces of ATen are called, so no CUDA header is needed.
#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <dlfcn.h>

#include <mutex>

#include "absl/strings/str_cat.h"
#include "core/device/backends.h"
#include "core/device/device.h"

namespace mpsd::device {
namespace {

std::string LoadCudaLibrary() {
  static const std::string error = [] {
    void* library = dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL);
    if (library != nullptr) return std::string();
    const char* text = dlerror();
    return std::string(text == nullptr ? "unknown error" : text);
  }();
  return error;
}

class CudaDevice : public Device {
 public:
  at::Device torch_device() const override { return at::Device(at::kCUDA, 0); }
  std::string name() const override { return "cuda"; }
  std::string description() const override {
    return absl::StrCat(chip(), ", ", *GetMemory().recommended_max >> 20,
                        " MiB");
  }
  std::string chip() const override {
    const std::optional<Card> card = FirstCard();
    return card ? card->name : "CUDA device 0";
  }
  void Synchronize() override {
    at::detail::getCUDAHooks().deviceSynchronize(0);
  }
  void Commit() override {}
  Memory GetMemory() const override {
    const auto stats = allocator().getDeviceStats(0);
    const auto [free, total] = allocator().getMemoryInfo(0);
    constexpr size_t kAll = 0;  // c10::CachingAllocator::StatType::AGGREGATE
    Memory memory;
    memory.current_allocated = stats.allocated_bytes[kAll].current;
    memory.peak_allocated = stats.allocated_bytes[kAll].peak;
    memory.driver_allocated = stats.reserved_bytes[kAll].current;
    memory.recommended_max = static_cast<int64_t>(total);
    return memory;
  }
  void ResetPeak() override { allocator().resetPeakStats(0); }
  void EmptyCache() override { allocator().emptyCache(); }
  void Seed(uint64_t seed) override { at::manual_seed(seed); }
  at::Tensor RngState() const override {
    at::Generator generator = DefaultGenerator();
    std::lock_guard<std::mutex> lock(generator.mutex());
    return generator.get_state();
  }
  void SetRngState(const at::Tensor& state) override {
    at::Generator generator = DefaultGenerator();
    std::lock_guard<std::mutex> lock(generator.mutex());
    generator.set_state(state);
  }

 private:
  static c10::DeviceAllocator& allocator() {
    return *c10::getDeviceAllocator(at::kCUDA);
  }
  static at::Generator DefaultGenerator() {
    return at::globalContext().defaultGenerator(at::Device(at::kCUDA, 0));
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> OpenCuda() {
  const std::string error = LoadCudaLibrary();
  if (!error.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "no CUDA device: libtorch_cuda.so cannot be loaded (", error, ")"));
  }
  if (!at::globalContext().hasCUDA()) {
    return absl::FailedPreconditionError("no CUDA device is visible");
  }
  at::globalContext().lazyInitDevice(at::kCUDA);
  return std::make_unique<CudaDevice>();
}

}  // namespace mpsd::device
