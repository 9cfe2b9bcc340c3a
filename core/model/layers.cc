// SPDX-License-Identifier: Apache-2.0
#include "core/model/layers.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <numbers>
#include <utility>

#include "core/base/check.h"
#include "core/device/block_mark.h"
#include "core/device/device.h"
#include "core/model/products.h"

namespace mpsd::model {

at::Tensor Linear::Dense(at::ScalarType dtype) const {
  if (quantized) return quantized->Dense(dtype);
  const bool copied = copy.defined() && copy.scalar_type() == dtype;
  return copied ? copy : weight.to(dtype);
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

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
// A node's input that may be absent: autograd rejects undefined tensors, so
// such an input is an optional.
using MaybeTensor = std::optional<at::Tensor>;

MaybeTensor OptionalTensor(const at::Tensor& tensor) {
  return tensor.defined() ? MaybeTensor(tensor) : std::nullopt;
}

// Whether the node adds to the parameter's .grad itself. A product goes there
// in one call; autograd would first make it as a tensor, and add it in a second
// pass over memory.
bool TakesGradientHere(const at::Tensor& parameter) {
  return parameter.is_leaf() && parameter.grad().defined();
}

// Adds scale · left · right to the .grad of `parameter` and returns undefined;
// if the parameter has no .grad yet, returns the product for autograd. Nothing
// for a frozen parameter.
at::Tensor GiveProduct(const at::Tensor& parameter, const at::Tensor& left,
                       const at::Tensor& right, double scale = 1) {
  if (!parameter.requires_grad()) return {};
  if (!TakesGradientHere(parameter)) return at::mm(left, right).mul_(scale);
  parameter.mutable_grad().addmm_(left, right, 1, scale);
  return {};
}

at::Tensor GiveSum(const at::Tensor& parameter, const at::Tensor& rows) {
  if (!parameter.defined() || !parameter.requires_grad()) return {};
  at::Tensor sum = rows.sum(0);
  if (!TakesGradientHere(parameter)) return sum;
  parameter.mutable_grad().add_(sum);
  return {};
}

// y = x Wᵀ + bias + scaling · t Bᵀ with t = d(x) Aᵀ, where d(x) = x ∘ noise is
// x itself without dropout. Backward, with dt = scaling · dy B:
//   dx = dy W + (dt A) ∘ noise
//   dW = dyᵀ x,  dbias = Σ dy,  dA = dtᵀ d(x),  dB = scaling · dyᵀ t
class LinearFunction : public torch::autograd::Function<LinearFunction> {
  // Indices of the saved tensors. Tensors that a layer lacks or does not need
  // are saved undefined, so that the indices are the same for all layers.
  enum Saved {
    kWeight,
    kBias,
    kA,
    kB,
    kRows,     // x, [tokens, in]: for dW, and for dA without dropout
    kDropped,  // d(x) with dropout
    kThin,     // t
    kNoise,    // 0 or 1 / (1 − dropout)
    kSavedCount,
  };

 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x,
                            const at::Tensor& w, const MaybeTensor& maybe_bias,
                            const MaybeTensor& maybe_a,
                            const MaybeTensor& maybe_b, double scaling,
                            double dropout) {
    const at::Tensor bias = maybe_bias.value_or(at::Tensor());
    const at::Tensor a = maybe_a.value_or(at::Tensor());
    const at::Tensor b = maybe_b.value_or(at::Tensor());
    const at::Tensor rows = x.reshape({-1, w.size(1)});
    at::Tensor y = products::InnerProduct(rows, w, maybe_bias);
    at::Tensor noise, in = rows, low_rank;
    if (a.defined()) {
      if (dropout > 0) {
        noise = at::empty_like(rows).bernoulli_(1 - dropout).div_(1 - dropout);
        in = rows * noise;
      }
      low_rank = at::mm(in, a.t());
      y.addmm_(low_rank, b.t(), 1, scaling);
    }
    const bool keeps = w.requires_grad() || a.defined();
    variable_list saved(kSavedCount);
    saved[kWeight] = w;
    saved[kBias] = bias;
    saved[kA] = a;
    saved[kB] = b;
    if (keeps) saved[kRows] = rows;
    if (noise.defined()) saved[kDropped] = in;
    saved[kThin] = low_rank;
    saved[kNoise] = noise;
    ctx->save_for_backward(std::move(saved));
    ctx->saved_data["scaling"] = scaling;
    ctx->saved_data["shape"] = x.sizes().vec();
    std::vector<int64_t> shape = x.sizes().vec();
    shape.back() = w.size(0);
    return y.view(shape);
  }

  static variable_list backward(AutogradContext* ctx,
                                const variable_list& gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor &w = saved[kWeight], &a = saved[kA], &b = saved[kB];
    const at::Tensor& noise = saved[kNoise];
    const at::Tensor in = saved[noise.defined() ? kDropped : kRows];
    const at::Tensor dy = gradients[0].reshape({-1, w.size(0)});
    const at::Tensor across = dy.t();
    at::Tensor dx, dw, da, db, d_low_rank;
    if (a.defined()) {
      const double scaling = ctx->saved_data["scaling"].toDouble();
      d_low_rank = at::mm(dy, b).mul_(scaling);
      da = GiveProduct(a, d_low_rank.t(), in);
      db = GiveProduct(b, across, saved[kThin], scaling);
    }
    if (ctx->needs_input_grad(0)) {
      dx = products::InnerProduct(dy, w.t());
      if (noise.defined()) {
        dx.add_(at::mm(d_low_rank, a).mul_(noise));
      } else if (a.defined()) {
        dx.addmm_(d_low_rank, a);
      }
      dx = dx.view(ctx->saved_data["shape"].toIntVector());
    }
    if (w.requires_grad()) dw = GiveProduct(w, across, saved[kRows]);
    // One per argument of forward; scaling and dropout have none.
    return {dx, dw, GiveSum(saved[kBias], dy), da, db, {}, {}};
  }
};

class EmbeddingFunction : public torch::autograd::Function<EmbeddingFunction> {
  enum Saved { kWeight, kIds };

 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& weight,
                            const at::Tensor& ids, int64_t padding_row) {
    ctx->save_for_backward({weight, ids});
    ctx->saved_data["padding"] = padding_row;
    return at::embedding(weight, ids, padding_row);
  }

  static variable_list backward(AutogradContext* ctx,
                                const variable_list& gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor& weight = saved[kWeight];
    const at::Tensor ids = saved[kIds].reshape({-1});
    at::Tensor dy = gradients[0].reshape({-1, weight.size(1)});
    // at::embedding's own backward gives the padding row no gradient either.
    const int64_t padding = ctx->saved_data["padding"].toInt();
    if (padding >= 0) {
      dy = dy.masked_fill((ids == padding).unsqueeze(1), 0);
    }
    at::Tensor dw;
    if (TakesGradientHere(weight)) {
      weight.mutable_grad().index_add_(0, ids, dy);
    } else {
      dw = at::zeros_like(weight).index_add_(0, ids, dy);
    }
    return {dw, at::Tensor(), at::Tensor()};
  }
};

bool IsPlain(const at::Tensor& t) {
  return t.scalar_type() == at::kFloat &&
         device::TraitsOf(t.device()).one_node_layers;
}

}  // namespace

bool CpuLinearTakes(const Linear& linear, const at::Tensor& x) {
  return linear.quantized == nullptr && IsPlain(x) && IsPlain(linear.weight) &&
         (linear.adapter == nullptr || linear.adapter->low_rank());
}

at::Tensor CpuLinear(const Linear& linear, const at::Tensor& x) {
  LowRank term;
  if (linear.adapter != nullptr) term = *linear.adapter->low_rank();
  return LinearFunction::apply(x, linear.weight, OptionalTensor(linear.bias),
                               OptionalTensor(term.a), OptionalTensor(term.b),
                               term.scaling, term.dropout);
}

at::Tensor CpuEmbedding(const Embedding& embedding, const at::Tensor& ids) {
  return EmbeddingFunction::apply(embedding.weight, ids, embedding.padding_row);
}

}  // namespace mpsd::model
