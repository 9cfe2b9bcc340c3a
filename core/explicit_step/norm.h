// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "core/explicit_step/linear_group.h"
#include "core/model/layers.h"

namespace mpsd::explicit_step {

// x · factor, multiplied in fp32 and returned in x's dtype; factor fp32 [..,
// 1].
at::Tensor Scaled(const at::Tensor& x, const at::Tensor& factor,
                  const Options& options);

// gradient += sum, or = sum if nothing was added in this step yet; both fp32 of
// one shape.
void AddSum(at::Tensor gradient, const at::Tensor& sum, const Options& options);

struct Normed {
  at::Tensor y;
  at::Tensor rstd;  // fp32 [.., 1]
};

// RMSNorm. x, y, dy and dx [.., n], w and dw [n], rstd [.., 1]; mean and sum
// run over the last dimension, Σ over all others. Forward:
//   rstd = rsqrt(mean(x²) + eps)
//   y    = x · rstd · w
// Backward:
//   g  = dy ∘ w
//   dx = rstd · g − x · rstd³ · sum(g ∘ x) / n
//   dw += Σ dy ∘ x · rstd, if w is trained
// rstd, sum(g ∘ x) and dw are fp32 for all dtypes of x.
Normed NormForward(const at::Tensor& x, const model::RmsNorm& norm,
                   const Options& options);

// y from x and the rstd of the forward.
at::Tensor NormApply(const at::Tensor& x, const at::Tensor& rstd,
                     const model::RmsNorm& norm, const Options& options);

// Returns dx, plus `residual` if defined. May overwrite `residual`. A weight
// that requires a gradient is trained: its .grad exists and gets dw.
at::Tensor NormBackward(const at::Tensor& dy, const at::Tensor& x,
                        const at::Tensor& rstd, const model::RmsNorm& norm,
                        const at::Tensor& residual, const Options& options);

// h = x + s · z: what a block adds to its input. x, z, h and dh [tokens,
// hidden_size]; z is the output of the block's last linear.
struct ResidualSum {
  double scale = 1;  // s

  // What that linear adds to its output: x if s is 1, so that z is already h.
  at::Tensor Residual(const at::Tensor& x) const;
  at::Tensor Forward(const at::Tensor& z, const at::Tensor& x) const;
  // dz
  at::Tensor Backward(const at::Tensor& dh) const;
};

}  // namespace mpsd::explicit_step
