// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_FAST_OPTIONS_H_
#define MPSD_CORE_FAST_OPTIONS_H_

#include <ATen/core/ScalarType.h>
#include <ATen/core/Tensor.h>

#include "core/device/traits.h"
#include "core/spec/recompute.h"

namespace mpsd::fast {

struct Options {
  // Which kernels the step is made of; the mathematics is the same. Those of
  // the device that computes, or in tests of another, on the CPU.
  device::Traits traits = {};
  spec::Recompute recompute = spec::Recompute::kNone;
  at::ScalarType dtype = at::kFloat;  // of activations and frozen weights
  // fp32 scalar on the device: the norms' epsilon, made once; FastStep::Create
  // fills it in. Undefined: each norm makes its own.
  at::Tensor eps = {};
};

}  // namespace mpsd::fast

#endif  // MPSD_CORE_FAST_OPTIONS_H_
