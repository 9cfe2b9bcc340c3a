// SPDX-License-Identifier: Apache-2.0
#include <ATen/Context.h>
#include <ATen/Parallel.h>

#include "absl/strings/str_cat.h"
#include "core/device/device.h"
#include "core/host/machine.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace mpsd::device {
namespace {

// While a model is loaded, every larger freed block is returned to the system.
// By default glibc would soon keep freed blocks of up to 32 MB; the small
// remaining blocks of each tensor would fragment them, and they would never be
// returned.
void GiveBackFreedMemory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
#endif
}

// A step frees and allocates the same blocks repeatedly: if they were returned
// to the system in between, every step would touch new pages. The largest ones
// (logits, dense forms of quantised weights) are returned: longer-lived small
// blocks would fragment their holes, and each layer would need new memory.
void KeepFreedMemory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_TOP_PAD, 64 << 20);
#endif
}

class CpuDevice : public Device {
 public:
  at::Device torch_device() const override { return at::kCPU; }
  std::string name() const override { return "cpu"; }
  std::string description() const override {
    return absl::StrCat(host::ProcessorName(), ", ", at::get_num_threads(),
                        " threads");
  }
  void Synchronize() override {}
  void Commit() override {}
  Memory GetMemory() const override {
    Memory memory;
    memory.recommended_max = host::PhysicalMemoryBytes();
    return memory;
  }
  void ResetPeak() override {}
  void EmptyCache() override {
#ifdef __GLIBC__
    malloc_trim(0);
#endif
  }
  void BeginSteps() override {
    EmptyCache();
    KeepFreedMemory();
  }
  void Seed(uint64_t seed) override { at::manual_seed(seed); }
  at::Tensor RngState() const override { return CpuRngState(); }
  void SetRngState(const at::Tensor& state) override { SetCpuRngState(state); }
};

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> OpenCpu() {
  GiveBackFreedMemory();
  return std::make_unique<CpuDevice>();
}

}  // namespace mpsd::device
