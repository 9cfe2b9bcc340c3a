// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_FAST_OPTIONS_H_
#define MPSD_CORE_FAST_OPTIONS_H_

#include <ATen/core/ScalarType.h>
#include <ATen/core/Tensor.h>

#include "core/device/traits.h"
#include "core/spec/recompute.h"

namespace mpsd::fast {

struct Options {
  // Which kernels the step calls; the mathematics is the same. Normally the
  // traits of the device that computes; tests give the CPU another device's.
  device::Traits traits = {};
  spec::Recompute recompute = spec::Recompute::kNone;
  at::ScalarType dtype = at::kFloat;  // activations and frozen weights
  // The norms' epsilon as an fp32 scalar on the device, so that it is copied
  // there once. FastStep::Create fills it in; undefined: each norm makes its
  // own.
  at::Tensor eps = {};
};

}  // namespace mpsd::fast

#endif  // MPSD_CORE_FAST_OPTIONS_H_
