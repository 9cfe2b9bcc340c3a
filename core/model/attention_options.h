// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_MODEL_ATTENTION_OPTIONS_H_
#define MPSD_CORE_MODEL_ATTENTION_OPTIONS_H_

#include <ATen/core/ScalarType.h>

#include "core/device/traits.h"

namespace mpsd::attention {

struct Options {
  // Select the kernels; the mathematics is the same. Normally the traits of the
  // device that computes; tests give the CPU another device's.
  device::Traits traits = {};
  at::ScalarType dtype = at::kFloat;  // of activations and frozen weights
};

}  // namespace mpsd::attention

#endif  // MPSD_CORE_MODEL_ATTENTION_OPTIONS_H_
