// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_FAST_OPTIONS_H_
#define MPSD_CORE_FAST_OPTIONS_H_

#include <ATen/core/ScalarType.h>
#include <ATen/core/Tensor.h>

#include "core/device/device.h"
#include "core/spec/recompute.h"

namespace mpsd::fast {

// Whose kernels the step is made of. The mathematics is the same.
enum class Kernels {
  kCpu,   // ATen's flash attention of the CPU
  kCuda,  // flash attention and fused norms
  kMps,   // plain ATen calls that are right on MPS: attention by blocks
};

inline Kernels KernelsFor(const device::Device& device) {
  if (!device.has_fused_attention_backward()) return Kernels::kMps;
  return device.kind() == device::Kind::kCuda ? Kernels::kCuda : Kernels::kCpu;
}

struct Options {
  Kernels kernels = Kernels::kCpu;
  spec::Recompute recompute = spec::Recompute::kNone;
  at::ScalarType dtype = at::kFloat;  // of activations and frozen weights
  // fp32 scalar on the device: the norms' epsilon, made once; FastStep::Create
  // fills it in. Undefined: each norm makes its own.
  at::Tensor eps = {};

  bool mps() const { return kernels == Kernels::kMps; }
};

}  // namespace mpsd::fast

#endif  // MPSD_CORE_FAST_OPTIONS_H_
