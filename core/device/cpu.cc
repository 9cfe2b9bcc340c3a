// SPDX-License-Identifier: Apache-2.0
#include <ATen/Context.h>
#include <ATen/Parallel.h>

#include "absl/strings/str_cat.h"
#include "core/device/device.h"
#include "core/device/platform.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace mpsd::device {
namespace {

// A step frees and takes the same large blocks again and again: left to itself
// glibc gives them back to the system in between, and every step touches new
// pages.
void KeepFreedMemory() {
#ifdef __GLIBC__
  constexpr int kNever = 1 << 30;
  mallopt(M_MMAP_THRESHOLD, kNever);
  mallopt(M_TRIM_THRESHOLD, kNever);
  mallopt(M_TOP_PAD, 64 << 20);
#endif
}

class CpuDevice : public Device {
 public:
  Kind kind() const override { return Kind::kCpu; }
  at::Device torch_device() const override { return at::kCPU; }
  std::string name() const override { return "cpu"; }
  std::string description() const override {
    return absl::StrCat(ProcessorName(), ", ", at::get_num_threads(),
                        " threads");
  }
  void Synchronize() override {}
  void Commit() override {}
  Memory GetMemory() const override {
    Memory memory;
    memory.recommended_max = PhysicalMemoryBytes();
    return memory;
  }
  void ResetPeak() override {}
  void EmptyCache() override {}
  void Seed(uint64_t seed) override { at::manual_seed(seed); }
  at::Tensor RngState() const override { return CpuRngState(); }
  void SetRngState(const at::Tensor& state) override { SetCpuRngState(state); }
  bool has_fused_attention_backward() const override { return true; }
};

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> OpenCpu() {
  KeepFreedMemory();
  return std::make_unique<CpuDevice>();
}

}  // namespace mpsd::device
