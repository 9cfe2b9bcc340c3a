// SPDX-License-Identifier: Apache-2.0
#include "core/explicit_step/norm.h"

#include <ATen/ATen.h>

#include <tuple>

#include "core/base/check.h"
#include "core/device/block_mark.h"

namespace mpsd::explicit_step {
namespace {

using backend::FusedNorm;

at::Tensor Rstd(const at::Tensor& x, double eps, const Options& options) {
  if (x.scalar_type() == at::kFloat) {  // Transformers' order of operations
    return x.square().mean({-1}, /*keepdim=*/true).add_(eps).rsqrt_();
  }
  const double n = static_cast<double>(x.size(-1));
  // length = sqrt(Σ x²), summed in fp32, so that mean(x²) = length² / n.
  const at::Tensor length =
      at::linalg_vector_norm(x, 2, {-1}, /*keepdim=*/true, at::kFloat);
  const at::Tensor first =
      options.eps.defined() ? options.eps : at::full({}, eps, length.options());
  return at::addcmul(first, length, length, 1 / n).rsqrt_();
}

// residual + g · rstd − x · factor, factor fp32 [.., 1]: dx with factor = rstd³
// · sum(g ∘ x) / n.
at::Tensor Combine(const at::Tensor& residual, const at::Tensor& g,
                   const at::Tensor& rstd, const at::Tensor& x,
                   const at::Tensor& factor, const Options& options) {
  if (!options.traits.mixes_dtypes) {  // x · factor, the small term, is rounded
    at::Tensor dx = Scaled(g, rstd, options);
    if (residual.defined()) dx.add_(residual);
    return dx.addcmul_(x, factor.to(x.scalar_type()), -1);
  }
  at::Tensor dx =
      residual.defined() ? at::Tensor(residual) : Scaled(g, rstd, options);
  if (residual.defined()) dx.addcmul_(g, rstd);
  return dx.addcmul_(x, factor, -1);
}

}  // namespace

void AddSum(at::Tensor gradient, const at::Tensor& sum,
            const Options& options) {
  options.fresh() ? gradient.copy_(sum) : gradient.add_(sum);
}

at::Tensor Scaled(const at::Tensor& x, const at::Tensor& factor,
                  const Options& options) {
  if (!options.traits.mixes_dtypes) {
    return x.to(at::kFloat).mul(factor).to(x.scalar_type());
  }
  at::Tensor y = at::empty_like(x);
  at::mul_out(y, x, factor);
  return y;
}

Normed NormForward(const at::Tensor& x, const model::RmsNorm& norm,
                   const Options& options) {
  const profile::BlockMark mark("mpsd::norm");
  if (options.traits.fused_norm == FusedNorm::kWithBackward) {
    auto [y, rstd] =
        at::_fused_rms_norm(x, norm.weight.sizes(), norm.Factor(), norm.eps);
    return {y, rstd};
  }
  const at::Tensor rstd = Rstd(x, norm.eps, options);
  return {NormApply(x, rstd, norm, options), rstd};
}

at::Tensor NormApply(const at::Tensor& x, const at::Tensor& rstd,
                     const model::RmsNorm& norm, const Options& options) {
  if (options.traits.fused_norm != FusedNorm::kNone) {
    return std::get<0>(
        at::_fused_rms_norm(x, norm.weight.sizes(), norm.Factor(), norm.eps));
  }
  return Scaled(x, rstd, options).mul_(norm.Factor());
}

at::Tensor NormBackward(const at::Tensor& dy, const at::Tensor& x,
                        const at::Tensor& rstd, const model::RmsNorm& norm,
                        const at::Tensor& residual, const Options& options) {
  const profile::BlockMark mark("mpsd::norm backward");
  base::Check(rstd.defined(), "the statistics of the norm's forward");
  const bool trained = norm.weight.requires_grad();
  if (options.traits.fused_norm == FusedNorm::kWithBackward) {
    auto [dx, dw] = at::_fused_rms_norm_backward(
        dy, x, norm.weight.sizes(), rstd, norm.Factor(), {true, trained});
    if (trained) AddSum(norm.weight.grad(), dw, options);
    return residual.defined() ? dx.add_(residual) : dx;
  }
  if (trained) {
    AddSum(norm.weight.grad(),
           at::mul(dy, Scaled(x, rstd, options))
               .flatten(0, -2)
               .sum({0}, /*keepdim=*/false, at::kFloat),
           options);
  }
  const double n = static_cast<double>(x.size(-1));
  const at::Tensor g = dy * norm.Factor();
  const at::Tensor dot = at::mul(g, x).sum({-1}, /*keepdim=*/true, at::kFloat);
  const at::Tensor factor = dot.mul_(rstd.pow(3)).mul_(1 / n);
  return Combine(residual, g, rstd, x, factor, options);
}

Normed NormForward(const at::Tensor& x,
                   const std::optional<model::RmsNorm>& norm,
                   const Options& options) {
  return norm ? NormForward(x, *norm, options) : Normed{x, {}};
}

at::Tensor NormBackward(const at::Tensor& dy, const at::Tensor& x,
                        const at::Tensor& rstd,
                        const std::optional<model::RmsNorm>& norm,
                        const at::Tensor& residual, const Options& options) {
  return norm ? NormBackward(dy, x, rstd, *norm, residual, options)
              : dy + residual;
}

at::Tensor ResidualSum::Forward(const at::Tensor& z, const at::Tensor& x,
                                Tape& tape, const Options& options) const {
  if (plain()) return z;
  const Normed n = NormForward(z, norm, options);
  if (norm) tape = {z, n.rstd};
  return at::add(x, n.y, scale);
}

at::Tensor ResidualSum::Backward(const at::Tensor& dh, const Tape& tape,
                                 const Options& options) const {
  const at::Tensor d = scale == 1 ? dh : dh * scale;
  return norm ? NormBackward(d, tape.z, tape.rstd, *norm, {}, options) : d;
}

}  // namespace mpsd::explicit_step
