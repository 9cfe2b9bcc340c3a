// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_MODEL_RECOMPUTE_H_
#define MPSD_CORE_MODEL_RECOMPUTE_H_

#include <ATen/core/Tensor.h>

#include <functional>

namespace mpsd::model {

// Activation checkpointing (Chen et al. 2016): run(x) without keeping what its
// backward needs; the backward runs it again with gradients on. Gradients of
// parameters that `run` captures accumulate into their .grad as usual. Random
// numbers drawn in `run` are drawn the same way again: unless `draws` is false,
// the generators of the CPU and of x's device are set back for the second run.
at::Tensor Recompute(std::function<at::Tensor(const at::Tensor&)> run,
                     const at::Tensor& x, bool draws = true);

}  // namespace mpsd::model

#endif  // MPSD_CORE_MODEL_RECOMPUTE_H_
