// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_MODEL_RECOMPUTE_H_
#define MPSD_CORE_MODEL_RECOMPUTE_H_

#include <ATen/core/Tensor.h>

#include <functional>

namespace mpsd::model {

// Activation checkpointing (Chen et al. 2016): computes run(x) without keeping
// what the backward needs; the backward calls `run` again with gradients on.
// Gradients of parameters that `run` captures accumulate into their .grad as
// usual. Unless `draws` is false, the generators of the CPU and of x's device
// are reset for the second call, so that `run` draws the same random numbers.
at::Tensor Recompute(std::function<at::Tensor(const at::Tensor&)> run,
                     const at::Tensor& x, bool draws = true);

}  // namespace mpsd::model

#endif  // MPSD_CORE_MODEL_RECOMPUTE_H_
