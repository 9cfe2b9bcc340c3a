// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <functional>
#include <string>

// An MPS device on Linux: tensors of device "mps" whose operators are
// dispatched as on a Mac. Those of mps_ops.txt have a kernel of their own,
// composite ones decompose as they do there (a linear does not, dropout takes
// its fused form), and what neither has goes to a fallback that reports it.
// The kernels compute on the CPU; torch's hooks answer that there is MPS, so
// that device::OpenMps() and all above it run unchanged.
//
// What it cannot know: kernels' own numbers and limits, branches that only a
// build for macOS contains (of these, copy_ is known to it).
namespace mpsd::ops {

inline bool IsFake(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().type() == at::kMPS;
}

// "aten::mm(Float, Float)": the overload and the dtype of each tensor argument;
// of a list each dtype once, "host" for a tensor that is not on the device.
std::string TypedName(const c10::OperatorHandle& op,
                      c10::ArrayRef<c10::IValue> inputs);

// Whether a call makes or moves numbers. Not so those that return nothing but
// views of their arguments, that change a tensor's shape alone, or that take
// memory without filling it.
bool MakesNumbers(const c10::OperatorHandle& op,
                  c10::ArrayRef<c10::IValue> inputs);

// Whether its results are drawn.
bool DrawsRandomNumbers(const c10::OperatorHandle& op);

// A kernel that ran; all of it is valid during the call alone.
struct Kernel {
  const c10::OperatorHandle& op;
  c10::ArrayRef<c10::IValue> inputs, outputs;
  bool has_mps_kernel;
};

// Called on the thread that runs the kernel, one at a time.
class KernelObserver {
 public:
  virtual ~KernelObserver() = default;
  virtual void OnKernel(const Kernel& kernel) = 0;
  // A tensor's memory on the device came or went; `live` is what there is now.
  virtual void OnMemory(int64_t bytes, int64_t live) = 0;
};

enum class Execution {
  kCompute,
  // Shapes and dtypes only: no memory, no numbers; reading back gives zeros.
  kShapesOnly,
};

// Once or more often, before the first tensor on MPS.
void InstallFakeMps();

// Null: no observer. It must stay alive until it is replaced.
void SetKernelObserver(KernelObserver* observer);
void SetExecution(Execution execution);

// From now on `spoil` gets every result of the operator ("aten::mm", or by its
// TypedName) on the CPU; null ends it. For tests that a wrong kernel is found.
void SpoilKernel(const std::string& op, std::function<void(at::Tensor&)> spoil);

// Bytes of all tensors on the device.
int64_t LiveBytes();

// Beyond this many bytes it is out of memory, as MPS is above its watermark.
inline constexpr int64_t kNoLimit = INT64_MAX;
void SetMemoryLimit(int64_t bytes);

// How often queued work has been handed to the device without waiting.
int64_t Commits();
// How often the host waited for all of it, besides copies that wait.
int64_t Waits();

}  // namespace mpsd::ops
