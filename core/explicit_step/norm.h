// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

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
//   y    = x · rstd · w, w being RmsNorm::Factor
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

// The same for a norm that a layer may lack: then y = x, without rstd.
Normed NormForward(const at::Tensor& x,
                   const std::optional<model::RmsNorm>& norm,
                   const Options& options);
at::Tensor NormBackward(const at::Tensor& dy, const at::Tensor& x,
                        const at::Tensor& rstd,
                        const std::optional<model::RmsNorm>& norm,
                        const at::Tensor& residual, const Options& options);

// h = x + s · m(z): what a block adds to its input. x, z, h and dh [tokens,
// hidden_size]; z is the output of the block's last linear, m a norm that the
// layer may lack.
struct ResidualSum {
  // Kept for the backward if there is a norm.
  struct Tape {
    at::Tensor z, rstd;
  };

  const std::optional<model::RmsNorm>& norm;  // m
  double scale = 1;                           // s

  // Whether h is x + z: the linear adds x to its output, so that z is h.
  bool plain() const { return scale == 1 && !norm; }
  // What that linear adds to its output; may be undefined.
  at::Tensor Residual(const at::Tensor& x) const {
    return plain() ? x : at::Tensor();
  }
  at::Tensor Forward(const at::Tensor& z, const at::Tensor& x, Tape& tape,
                     const Options& options) const;
  // dz
  at::Tensor Backward(const at::Tensor& dh, const Tape& tape,
                      const Options& options) const;
};

}  // namespace mpsd::explicit_step
