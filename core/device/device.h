// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/host/traits.h"

namespace mpsd::device {

using backend::Traits;

// The traits of a tensor's device. Code that has a Device calls
// Device::traits() instead.
const Traits& TraitsOf(at::Device device);

// Bytes; absent if the backend has no such counter.
struct Memory {
  std::optional<int64_t> current_allocated;  // in live tensors
  std::optional<int64_t> peak_allocated;     // since the last ResetPeak
  std::optional<int64_t> driver_allocated;   // by this process, with caches
  std::optional<int64_t> recommended_max;    // limit of driver_allocated
};

// The single accelerator of a worker. Called only from the training thread.
// torch's exceptions pass through: core/worker turns them into a Status.
class Device {
 public:
  virtual ~Device() = default;

  virtual at::Device torch_device() const = 0;
  // The facts by which other rooms branch.
  virtual const Traits& traits() const { return TraitsOf(torch_device()); }
  virtual std::string name() const = 0;  // "cpu", "cuda", "mps"
  // The chip or card and its memory size, for run.json.
  virtual std::string description() const = 0;
  // The chip or card on which kernels' results may depend.
  virtual std::string chip() const;

  // Waits for all queued work.
  virtual void Synchronize() = 0;
  // Submits queued work to the device without waiting (MPS encodes lazily).
  virtual void Commit() = 0;

  virtual Memory GetMemory() const = 0;
  // Share of time, 0..1, that the device is busy with any process; absent if
  // the device does not report it. Takes well below a millisecond.
  virtual std::optional<double> utilization_ratio() const {
    return std::nullopt;
  }
  virtual void ResetPeak() = 0;
  // Returns cached blocks to the system; synchronises.
  virtual void EmptyCache() = 0;
  // Called before the first step. Steps repeat the same work in blocks of the
  // same sizes: the device returns the memory cached during loading to the
  // system, and from now on keeps freed blocks for the next step.
  virtual void BeginSteps() {}

  // Seeds the generators of this device and of the CPU.
  virtual void Seed(uint64_t seed) = 0;
  // The device generator's state, a CPU byte tensor; CpuRngState has the CPU's.
  virtual at::Tensor RngState() const = 0;
  virtual void SetRngState(const at::Tensor& state) = 0;
};

at::Tensor CpuRngState();
void SetCpuRngState(const at::Tensor& state);

// Opens the device of the named kind; FailedPrecondition says what is missing.
absl::StatusOr<std::unique_ptr<Device>> OpenCpu();
// Loads CUDA's library if it is not loaded yet. ATen asks for that library's
// hooks once per process and then answers "no CUDA" for good: a process that
// first trains on the CPU must open CUDA before that.
absl::StatusOr<std::unique_ptr<Device>> OpenCuda();
absl::StatusOr<std::unique_ptr<Device>> OpenMps();

// MPS if there is one, else CUDA, else the CPU.
absl::StatusOr<std::unique_ptr<Device>> OpenBest();
// Opens the device that job.json names; kAuto: OpenBest.
absl::StatusOr<std::unique_ptr<Device>> Open(backend::Choice choice);

// Scope of one optimizer step: on macOS an autorelease pool, since a
// command-line program has no run loop that would release Metal's objects.
class StepScope {
 public:
  StepScope();
  ~StepScope();
  StepScope(const StepScope&) = delete;
  StepScope& operator=(const StepScope&) = delete;

 private:
  void* pool_;
};

// Follows a run's memory from step to step: the peaks, and whether the driver's
// memory beyond live tensors keeps growing (compiled graphs, heap
// fragmentation, a leak).
class MemoryWatch {
 public:
  // Bytes; absent if the device has no such counter; growth is also absent
  // during the first steps.
  struct Summary {
    std::optional<int64_t> peak_allocated;
    std::optional<int64_t> peak_driver;
    // Growth since the warm-up of the overhead: what the driver holds beyond
    // live tensors.
    std::optional<int64_t> overhead_growth;
  };

  // Called after each step. Returns a sentence for the job's log the first time
  // that the driver holds nearly all the memory that the machine recommends,
  // and the first time that the overhead has grown by a tenth of the
  // recommended memory.
  std::optional<std::string> Observe(const Memory& memory);

  const Summary& summary() const { return summary_; }

 private:
  int64_t steps_ = 0;
  std::optional<int64_t> baseline_;  // overhead after the warm-up
  bool reported_full_ = false, reported_growth_ = false;
  Summary summary_;
};

// While it exists, receives torch's warnings of the thread that made it.
// Warnings that an operator without a Metal kernel ran on the CPU are counted
// by operator; every other text is passed to `report` once.
//
// torch issues all these warnings at one place in its code, by default once per
// process: this class makes torch repeat every warning, process-wide.
// Autograd's threads pass their warnings to the thread that called backward.
class WarningCapture final : private c10::WarningHandler {
 public:
  // `report` is called on this thread, from inside torch: it must not throw.
  explicit WarningCapture(std::function<void(const std::string&)> report);

  // "aten::linalg_eig" → runs on the CPU since this object was made.
  const std::map<std::string, int64_t>& cpu_fallback_ops() const {
    return fallbacks_;
  }

 private:
  void process(const c10::Warning& warning) override;

  const std::function<void(const std::string&)> report_;
  std::map<std::string, int64_t> fallbacks_;
  std::set<std::string> reported_;
  const c10::WarningUtils::WarnAlways always_;
  const c10::WarningUtils::WarningHandlerGuard guard_;
};

// The operator that `warning` says ran on the CPU (MPSFallback.mm: "The
// operator 'aten::x' is not currently supported on the MPS backend and will
// fall back to run on the CPU."); empty for any other text.
std::string CpuFallbackOp(const std::string& warning);

}  // namespace mpsd::device
