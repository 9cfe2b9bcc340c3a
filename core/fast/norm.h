// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_FAST_NORM_H_
#define MPSD_CORE_FAST_NORM_H_

#include <ATen/core/Tensor.h>

#include "core/fast/options.h"
#include "core/model/layers.h"

namespace mpsd::fast {

// x · factor in x's dtype, the product in fp32; factor fp32 [.., 1].
at::Tensor Scaled(const at::Tensor& x, const at::Tensor& factor,
                  const Options& options);

struct Normed {
  at::Tensor y;
  at::Tensor rstd;  // fp32 [.., 1]
};

// RMSNorm of a frozen weight w over the last dimension, of size n:
//   rstd = rsqrt(mean(x²) + eps),  y = x · rstd · w
//   dx = rstd · (g − x · rstd² · mean(g ∘ x)),  g = dy ∘ w
Normed NormForward(const at::Tensor& x, const model::RmsNorm& norm,
                   const Options& options);

// y again.
at::Tensor NormApply(const at::Tensor& x, const at::Tensor& rstd,
                     const model::RmsNorm& norm, const Options& options);

// dx, plus `residual` where it is defined (which may be overwritten).
at::Tensor NormBackward(const at::Tensor& dy, const at::Tensor& x,
                        const at::Tensor& rstd, const model::RmsNorm& norm,
                        const at::Tensor& residual, const Options& options);

}  // namespace mpsd::fast

#endif  // MPSD_CORE_FAST_NORM_H_
