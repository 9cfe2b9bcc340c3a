// SPDX-License-Identifier: Apache-2.0
#include "core/model/layers.h"

#include <ATen/ATen.h>

#include <numbers>

#include "core/base/check.h"
#include "core/device/traits.h"
#include "core/model/products.h"
#include "core/model/wide_linear.h"
#include "core/device/block_mark.h"
#include "core/model/linear.h"

namespace mpsd::model {

at::Tensor Linear::Dense(at::ScalarType dtype) const {
  return quantized ? quantized->Dense(dtype) : weight.to(dtype);
}

at::Tensor Linear::Forward(const at::Tensor& x) const {
  const at::ScalarType dtype = x.scalar_type();
  if (quantized) {
    const at::Tensor y = quant::LinearForward(
        x, quantized, bias.defined() ? bias.to(dtype) : bias);
    return adapter == nullptr ? y : adapter->Apply(y, x);
  }
  if (dtype != weight.scalar_type() && !compute_in_input_dtype) {
    return Forward(x.to(weight.scalar_type())).to(dtype);
  }
  const at::Tensor w = weight.to(dtype);
  const at::Tensor y =
      products::WideLinear(x, w, bias.defined() ? bias.to(dtype) : bias);
  return adapter == nullptr ? y : adapter->Apply(y, x);
}

at::Tensor Embedding::Forward(const at::Tensor& ids,
                              at::ScalarType dtype) const {
  return at::embedding(weight, ids, padding_row).to(dtype);
}

at::Tensor LayerNorm::Forward(const at::Tensor& x) const {
  const profile::BlockMark mark("mpsd::norm");
  const at::ScalarType dtype = x.scalar_type();
  return at::layer_norm(x, weight.sizes(), weight.to(dtype), bias.to(dtype),
                        eps);
}

at::Tensor Activate(const at::Tensor& x, const std::string& hidden_act) {
  if (hidden_act == "relu") return at::relu(x);
  if (hidden_act == "silu" || hidden_act == "swish") return at::silu(x);
  return at::gelu(x, hidden_act == "gelu" ? "none" : "tanh");
}

at::Tensor TokenDropout(const at::Tensor& x, double probability,
                        int64_t length) {
  base::CheckAtMost(x.size(1), length, "tokens that are left, and all");
  if (x.size(1) == length || !device::TraitsOf(x.device()).draws_in_order) {
    return at::dropout(x, probability, /*train=*/true);
  }
  const at::Tensor noise =
      at::empty({x.size(0), length, x.size(2)}, x.options());
  noise.bernoulli_(1 - probability);
  return x * noise.narrow(1, 0, x.size(1)).div(1 - probability);
}

at::Tensor RmsNorm::Forward(const at::Tensor& x) const {
  const profile::BlockMark mark("mpsd::norm");
  const at::Tensor wide = x.to(at::kFloat);
  const at::Tensor scale =
      at::rsqrt(at::add(wide.square().mean({-1}, /*keepdim=*/true), eps));
  at::Tensor normed = (wide * scale).to(x.scalar_type());
  // The gradient by heads arrives transposed, and autograd adds to it in place:
  // on devices that write strided tensors incorrectly it is made contiguous.
  if (x.dim() == 4 && !device::TraitsOf(x.device()).strided_targets)
    normed = products::WithContiguousGradient(normed);
  if (weight.scalar_type() == x.scalar_type()) return weight * normed;
  return (weight * normed.to(weight.scalar_type())).to(x.scalar_type());
}

namespace {

// Transformers' rope_init functions, operation by operation in fp32: a
// difference in a frequency's last place is visible in the logits.
at::Tensor DividedBy(double dividend, const at::Tensor& x) {
  return x.reciprocal() * dividend;
}

// _compute_llama3_parameters: divides long wavelengths by `factor`, keeps short
// ones, and blends those between.
at::Tensor ScaleLlama3(const at::Tensor& plain,
                       const spec::Llama3RopeScaling& s) {
  const double original =
      static_cast<double>(s.original_max_position_embeddings);
  const at::Tensor wavelength = DividedBy(2 * std::numbers::pi, plain);
  const at::Tensor is_long = wavelength > original / s.low_freq_factor;
  const at::Tensor is_short = wavelength < original / s.high_freq_factor;
  const at::Tensor divided = at::where(is_long, plain / s.factor, plain);
  const at::Tensor smooth =
      (DividedBy(original, wavelength) - s.low_freq_factor) /
      (s.high_freq_factor - s.low_freq_factor);
  const at::Tensor blended =
      (1 - smooth) * divided / s.factor + smooth * divided;
  return at::where(is_long.logical_or(is_short), divided, blended);
}

// _compute_default_rope_parameters and its scaling variants.
at::Tensor InverseFrequencies(const spec::ModelConfig& config) {
  const at::Tensor exponents =
      at::arange(0, config.head_dim, 2, at::kLong).to(at::kFloat) /
      static_cast<double>(config.head_dim);
  at::Tensor f = at::pow(config.rope_theta, exponents).reciprocal();
  if (config.rope_scaling) f = ScaleLlama3(f, *config.rope_scaling);
  if (config.linear_rope_factor) f = f / *config.linear_rope_factor;
  return f;
}

}  // namespace

Rotary::Rotary(const spec::ModelConfig& config, at::Device device)
    : inverse_frequencies_(InverseFrequencies(config).to(device)) {}

RotaryTable Rotary::Table(const at::Tensor& positions,
                          at::ScalarType dtype) const {
  const at::Tensor angles =
      positions.to(at::kFloat).unsqueeze(-1) * inverse_frequencies_;
  const at::Tensor both = at::cat({angles, angles}, -1).unsqueeze(1);
  return {both.cos().to(dtype), both.sin().to(dtype)};
}

at::Tensor Rotary::Apply(const at::Tensor& x, const RotaryTable& table) {
  const int64_t half = x.size(-1) / 2;
  const at::Tensor low = x.narrow(-1, 0, half);
  const at::Tensor high = x.narrow(-1, half, half);
  return x * table.cos + at::cat({at::neg(high), low}, -1) * table.sin;
}

}  // namespace mpsd::model
