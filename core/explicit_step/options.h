// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_EXPLICIT_STEP_OPTIONS_H_
#define MPSD_CORE_EXPLICIT_STEP_OPTIONS_H_

#include <ATen/core/Tensor.h>

#include "core/model/attention_options.h"
#include "core/spec/recompute.h"

namespace mpsd::explicit_step {

struct Options : attention::Options {
  spec::Recompute recompute = spec::Recompute::kNone;
  // The norms' epsilon as an fp32 scalar on the device, so that it is copied
  // there once. ExplicitStep::Create fills it in; undefined: each norm makes
  // its own.
  at::Tensor eps = {};
};

}  // namespace mpsd::explicit_step

#endif  // MPSD_CORE_EXPLICIT_STEP_OPTIONS_H_
