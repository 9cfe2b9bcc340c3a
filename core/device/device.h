// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_DEVICE_DEVICE_H_
#define MPSD_CORE_DEVICE_DEVICE_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/device/traits.h"

namespace mpsd::device {

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

}  // namespace mpsd::device

#endif  // MPSD_CORE_DEVICE_DEVICE_H_
