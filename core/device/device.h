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

// Bytes; absent where the backend keeps no such counter.
struct Memory {
  std::optional<int64_t> current_allocated;  // in live tensors
  std::optional<int64_t> peak_allocated;     // since the last ResetPeak
  std::optional<int64_t> driver_allocated;   // by this process, caches included
  std::optional<int64_t> recommended_max;    // limit of driver_allocated
};

// The one accelerator of a worker. Called only from the training thread.
// torch's own exceptions pass through: core/worker turns them into a Status.
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
  // Hands queued work to the device without waiting (MPS encodes lazily).
  virtual void Commit() = 0;

  virtual Memory GetMemory() const = 0;
  // Share of time, 0..1, that the device is busy for any process; absent where
  // the device does not report it. The call takes well below a millisecond.
  virtual std::optional<double> utilization_ratio() const {
    return std::nullopt;
  }
  virtual void ResetPeak() = 0;
  // Gives cached blocks back to the system; synchronises.
  virtual void EmptyCache() = 0;
  // Called when steps begin, which repeat the same work in blocks of the same
  // sizes: the device returns to the system what loading left, and keeps freed
  // blocks for the next step.
  virtual void BeginSteps() {}

  // Seeds this device's generator and the CPU's.
  virtual void Seed(uint64_t seed) = 0;
  // The device generator's state, a CPU byte tensor; the CPU's own is kept
  // apart by CpuRngState.
  virtual at::Tensor RngState() const = 0;
  virtual void SetRngState(const at::Tensor& state) = 0;
};

at::Tensor CpuRngState();
void SetCpuRngState(const at::Tensor& state);

// Opens the device of the named kind; FailedPrecondition says what is missing.
absl::StatusOr<std::unique_ptr<Device>> OpenCpu();
// Loads CUDA's library where it has not been loaded. ATen asks for the hooks of
// that library once in a process' life, and then answers "no CUDA" for good: a
// process that trains on the CPU first opens CUDA before that.
absl::StatusOr<std::unique_ptr<Device>> OpenCuda();
absl::StatusOr<std::unique_ptr<Device>> OpenMps();

// MPS where there is one, else CUDA, else the CPU.
absl::StatusOr<std::unique_ptr<Device>> OpenBest();
// Opens the device that job.json names; kAuto: as OpenBest.
absl::StatusOr<std::unique_ptr<Device>> Open(backend::Choice choice);

}  // namespace mpsd::device

#endif  // MPSD_CORE_DEVICE_DEVICE_H_
