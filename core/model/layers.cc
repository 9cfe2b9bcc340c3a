// SPDX-License-Identifier: Apache-2.0
#include "core/model/layers.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/custom_class.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>
#include <tuple>
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

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
// A node's input that may be absent: autograd rejects undefined tensors, so
// such an input is an optional.
using MaybeTensor = std::optional<at::Tensor>;

MaybeTensor Maybe(const at::Tensor& tensor) {
  return tensor.defined() ? MaybeTensor(tensor) : std::nullopt;
}

bool IsTrained(const at::Tensor& parameter) {
  return parameter.defined() && parameter.requires_grad();
}

// Whether a node can add the gradient to the parameter's .grad, if any.
bool AddsHere(const at::Tensor& parameter) {
  return !IsTrained(parameter) ||
         (parameter.is_leaf() && parameter.grad().defined());
}

// Weights are no inputs of a node: autograd has nothing to add to them. One
// input must require a gradient, though; if x does not, as above frozen
// embeddings, `trained` is one.
MaybeTensor Anchor(const at::Tensor& x, const at::Tensor& trained) {
  return x.requires_grad() ? std::nullopt : MaybeTensor(trained);
}

// Summands of small gradients, which are added together at the end of the
// backward: on a GPU a call costs more than the sum.
class SmallGradients {
 public:
  // Adds `summand` to `gradient`, fp32, when the running backward ends.
  static void Add(const at::Tensor& gradient, const at::Tensor& summand) {
    static thread_local std::weak_ptr<SmallGradients> current;
    std::shared_ptr<SmallGradients> all = current.lock();
    if (all == nullptr) {
      current = all = std::make_shared<SmallGradients>();
      torch::autograd::Engine::get_default_engine().queue_callback(
          [all] { all->AddAll(); });
    }
    const bool wide = summand.scalar_type() == at::kFloat;
    (wide ? all->wide_ : all->narrow_).push_back({gradient, summand});
  }

 private:
  struct Sum {
    at::Tensor gradient, summand;
  };

  void AddAll() const {
    const at::NoGradGuard no_graph;
    std::vector<at::Tensor> gradients, summands, narrow;
    for (const Sum& sum : wide_) {
      gradients.push_back(sum.gradient);
      summands.push_back(sum.summand);
    }
    std::vector<int64_t> sizes;
    for (const Sum& sum : narrow_) {
      gradients.push_back(sum.gradient);
      narrow.push_back(sum.summand);
      sizes.push_back(sum.summand.numel());
    }
    if (!narrow.empty()) {
      const auto cast = at::cat(narrow).to(at::kFloat).split_with_sizes(sizes);
      summands.insert(summands.end(), cast.begin(), cast.end());
    }
    at::_foreach_add_(gradients, summands);
  }

  std::vector<Sum> wide_, narrow_;  // by the summand's dtype
};

// The dense linears of a node, of which only a single one may have an adapter.
struct LinearWeights : torch::CustomClassHolder {
  at::Tensor weight, bias;            // [out, in], and [out] or undefined
  at::Tensor weight_grad, bias_grad;  // fp32; undefined: frozen
  std::vector<int64_t> outputs;       // of each linear
  LowRank term;                       // of the adapter, if `a` is defined
  bool inner_products = false;
  LinearCall call;
};

// x [tokens, width] of attention's [rows, heads, length, head_dim].
at::Tensor FromHeads(const at::Tensor& x) {
  return x.transpose(1, 2).reshape({-1, x.size(1) * x.size(3)});
}

// Columns of x [tokens, all columns] as [rows, heads, length, head_dim].
at::Tensor ToHeads(const at::Tensor& x, int64_t begin, int64_t columns,
                   int64_t rows, int64_t head_dim) {
  const int64_t length = x.size(0) / rows, all = x.size(1);
  return x.as_strided({rows, columns / head_dim, length, head_dim},
                      {length * all, head_dim, all, 1},
                      x.storage_offset() + begin);
}

// u = x Wᵀ + bias + scaling · t Bᵀ with t = d(x) Aᵀ, where d(x) = x ∘ noise is
// x itself without dropout; y = u, or gelu(u). Backward, with dt = scaling ·
// du B:
//   dx = du W + (dt A) ∘ noise
//   dW += duᵀ x,  dbias += Σ du,  dA += dtᵀ d(x),  dB += scaling · duᵀ t
// The node's outputs are the columns of y of each linear.
class LinearFunction : public torch::autograd::Function<LinearFunction> {
  // Indices of the saved tensors. Tensors that a layer lacks or does not need
  // are saved undefined, so that the indices are the same for all layers.
  enum Saved {
    kRows,     // x, [tokens, in]: for dW, and for dA without dropout
    kDropped,  // d(x) with dropout
    kThin,     // t
    kNoise,    // 0 or 1 / (1 − dropout)
    kInner,    // u with gelu
    kSavedCount,
  };

 public:
  static variable_list forward(AutogradContext* ctx, const at::Tensor& x,
                               const MaybeTensor& /*anchor*/,
                               const c10::intrusive_ptr<LinearWeights>& w) {
    const auto& [a, b, scaling, dropout] = w->term;
    const at::Tensor rows = x.dim() == 2   ? x
                            : x.dim() == 4 ? FromHeads(x)
                                           : x.flatten(0, -2);
    at::Tensor y = w->inner_products
                       ? products::InnerProduct(rows, w->weight, Maybe(w->bias))
                       : products::WideLinear(rows, w->weight, w->bias);
    variable_list saved(kSavedCount);
    if (a.defined()) {
      at::Tensor in = rows;
      if (dropout > 0) {
        const at::Tensor noise =
            at::empty_like(rows).bernoulli_(1 - dropout).div_(1 - dropout);
        in = rows * noise;
        saved[kNoise] = noise;
        saved[kDropped] = in;
      }
      saved[kThin] = at::mm(in, a.t());
      y.addmm_(saved[kThin], b.t(), 1, scaling);
    }
    if (w->weight_grad.defined() || a.defined()) saved[kRows] = rows;
    if (const char* gelu = w->call.gelu) {
      saved[kInner] = y;
      y = at::gelu(y, gelu);
    }
    ctx->save_for_backward(std::move(saved));
    ctx->saved_data["weights"] = c10::IValue::make_capsule(w);
    ctx->saved_data["shape"] = x.sizes().vec();
    if (w->call.head_dim == 0) return Columns(*w, x, y);
    variable_list outputs;
    int64_t begin = 0;
    for (const int64_t columns : w->outputs) {
      outputs.push_back(
          ToHeads(y, begin, columns, w->call.rows, w->call.head_dim));
      begin += columns;
    }
    return outputs;
  }

  static variable_list backward(AutogradContext* ctx,
                                const variable_list& gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const auto capsule = ctx->saved_data["weights"].toCapsule();
    const auto& w = static_cast<const LinearWeights&>(*capsule);
    const auto& [a, b, scaling, dropout] = w.term;
    at::Tensor dy = Rows(w, gradients);
    if (const char* gelu = w.call.gelu) {
      dy = at::gelu_backward(dy, saved[kInner], gelu);
    }
    at::Tensor dx, d_low_rank;
    const device::Traits& traits = w.call.traits;
    if (a.defined()) {
      d_low_rank = at::mm(dy, b).mul_(scaling);
      products::AddProduct(a.grad(), d_low_rank,
                           saved[dropout > 0 ? kDropped : kRows], traits);
      products::AddProduct(b.grad(), dy, saved[kThin], traits, scaling);
    }
    if (ctx->needs_input_grad(0)) {
      dx = w.inner_products ? products::InnerProduct(dy, w.weight.t())
                            : products::TimesWide(dy, w.weight);
      if (dropout > 0) {
        dx.add_(at::mm(d_low_rank, a).mul_(saved[kNoise]));
      } else if (a.defined()) {
        dx.addmm_(d_low_rank, a);
      }
      const auto shape = ctx->saved_data["shape"].toIntVector();
      dx = shape.size() == 2   ? dx
           : shape.size() == 4 ? ToHeads(dx, 0, dx.size(1), shape[0], shape[3])
                               : dx.view(shape);
    }
    if (w.weight_grad.defined()) {
      products::AddProduct(w.weight_grad, dy, saved[kRows], traits);
    }
    if (w.bias_grad.defined()) {
      SmallGradients::Add(w.bias_grad, dy.sum({0}, false, at::kFloat));
    }
    return {dx, {}, {}};
  }

 private:
  static variable_list Columns(const LinearWeights& w, const at::Tensor& x,
                               at::Tensor y) {
    if (x.dim() == 3) y = y.view({x.size(0), x.size(1), y.size(1)});
    if (w.outputs.size() == 1) return {y};
    return y.split_with_sizes(w.outputs, -1);
  }

  // The gradients of all outputs as [tokens, out].
  static at::Tensor Rows(const LinearWeights& w, variable_list gradients) {
    const bool heads = w.call.head_dim > 0;
    if (heads) {
      for (at::Tensor& g : gradients) g = g.transpose(1, 2);
    }
    const at::Tensor all = gradients.size() == 1
                               ? gradients[0]
                               : at::cat(gradients, heads ? 2 : -1);
    return all.reshape({-1, w.weight.size(0)});
  }
};

// Whether `parts` are adjacent, or all undefined; sets `all` to their rows.
bool Join(const std::vector<at::Tensor>& parts, at::Tensor& all) {
  all = products::AdjacentRows(parts);
  return all.defined() ||
         std::none_of(parts.begin(), parts.end(),
                      [](const at::Tensor& t) { return t.defined(); });
}

// Null if the linears cannot be one product.
c10::intrusive_ptr<LinearWeights> WeightsOf(
    const std::vector<const Linear*>& linears, const LinearCall& call) {
  const at::NoGradGuard no_graph;
  const auto gradient = [](const at::Tensor& parameter) {
    return IsTrained(parameter) ? parameter.grad() : at::Tensor();
  };
  auto all = c10::make_intrusive<LinearWeights>();
  std::vector<at::Tensor> weights, biases, weight_grads, bias_grads;
  for (const Linear* l : linears) {
    weights.push_back(l->weight);
    biases.push_back(l->bias);
    weight_grads.push_back(gradient(l->weight));
    bias_grads.push_back(gradient(l->bias));
    all->outputs.push_back(l->weight.size(0));
  }
  if (!Join(weights, all->weight) || !Join(biases, all->bias) ||
      !Join(weight_grads, all->weight_grad) ||
      !Join(bias_grads, all->bias_grad)) {
    return {};
  }
  for (at::Tensor* t : {&all->weight, &all->weight_grad}) {
    if (t->defined() && t->dim() > 2) *t = t->flatten(1);
  }
  all->call = call;
  return all;
}

// Whether a node can compute the linear, without its adapter.
bool CanBeNode(const Linear& l, const at::Tensor& x) {
  return l.quantized == nullptr && l.weight.scalar_type() == x.scalar_type() &&
         AddsHere(l.weight) && AddsHere(l.bias) &&
         (IsTrained(l.weight) || !IsTrained(l.bias));
}

// Whether a node costs less than autograd's own. A device that multiplies
// transposed views incorrectly in fp32 (MPS) has one call for a linear's whole
// backward; a node would copy the view first.
bool NodePays(const device::Traits& traits, at::ScalarType dtype) {
  return traits.transposed_left || dtype != at::kFloat;
}

bool CanBePart(LinearAdapter& adapter) {
  const auto term = adapter.low_rank();
  return term && AddsHere(term->a) && AddsHere(term->b);
}

// sum = d(x) + residual, or x alone; y = norm(sum), where d is dropout.
// Backward, with ds = normᵀ(dy) + dsum:
//   dx = dᵀ(ds),  dresidual = ds
class NormFunction : public torch::autograd::Function<NormFunction> {
  enum Saved { kSum, kMean, kRstd, kWeight, kBias, kMask };

 public:
  static variable_list forward(AutogradContext* ctx, const at::Tensor& x,
                               const MaybeTensor& residual,
                               const MaybeTensor& /*anchor*/,
                               const LayerNorm& norm, const Dropout& dropout) {
    at::Tensor sum = x, mask;
    if (residual) std::tie(sum, mask) = dropout.Apply(x, *residual);
    const auto [y, mean, rstd] = at::native_layer_norm(
        sum, norm.weight.sizes(), norm.weight, norm.bias, norm.eps);
    ctx->save_for_backward({sum, mean, rstd, norm.weight, norm.bias, mask});
    ctx->saved_data["probability"] = dropout.probability;
    ctx->saved_data["residual"] = residual.has_value();
    ctx->set_materialize_grads(false);
    return residual ? variable_list{y, sum} : variable_list{y};
  }

  static variable_list backward(AutogradContext* ctx,
                                const variable_list& gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor &weight = saved[kWeight], &bias = saved[kBias];
    const bool trained = IsTrained(weight);
    base::Check(gradients[0].defined(), "a norm's output is used");
    auto [ds, dw, db] = at::native_layer_norm_backward(
        gradients[0], saved[kSum], weight.sizes(), saved[kMean], saved[kRstd],
        weight, bias, {true, trained, trained});
    if (trained) {
      SmallGradients::Add(weight.grad(), dw);
      SmallGradients::Add(bias.grad(), db);
    }
    const bool residual = ctx->saved_data["residual"].toBool();
    if (residual && gradients[1].defined()) ds.add_(gradients[1]);
    at::Tensor dx = ds;
    if (saved[kMask].defined()) {
      const Dropout dropout{ctx->saved_data["probability"].toDouble()};
      dx = dropout.Backward(ds, saved[kMask]);
    }
    return {dx, residual ? ds : at::Tensor(), {}, {}, {}};
  }
};

class EmbeddingFunction : public torch::autograd::Function<EmbeddingFunction> {
  enum Saved { kWeight, kIds };

 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& weight,
                            const at::Tensor& ids, int64_t padding_row,
                            at::ScalarType dtype) {
    ctx->save_for_backward({weight, ids});
    ctx->saved_data["padding"] = padding_row;
    return at::embedding(weight, ids, padding_row).to(dtype);
  }

  // Touches only the rows that were looked up.
  static variable_list backward(AutogradContext* ctx,
                                const variable_list& gradients) {
    const variable_list saved = ctx->get_saved_variables();
    at::Tensor& gradient = saved[kWeight].mutable_grad();
    const at::Tensor dy = gradients[0].reshape({-1, gradient.size(1)});
    // The padding row gets no gradient here, but a tied head may give it one.
    const int64_t padding = ctx->saved_data["padding"].toInt();
    at::Tensor kept;
    if (padding >= 0) kept = gradient.select(0, padding).clone();
    gradient.index_add_(0, saved[kIds].reshape({-1}), dy.to(at::kFloat));
    if (padding >= 0) gradient.select(0, padding).copy_(kept);
    return {{}, {}, {}, {}};
  }
};

}  // namespace

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
  at::Tensor y;
  const device::Traits& traits = device::TraitsOf(x.device());
  if (IsTrained(weight) && NodePays(traits, dtype) && CanBeNode(*this, x)) {
    y = LinearFunction::apply(x, Anchor(x, weight),
                              WeightsOf({this}, {traits}))[0];
  } else {
    y = products::WideLinear(x, weight.to(dtype).flatten(1),
                             bias.defined() ? bias.to(dtype) : bias);
  }
  return adapter == nullptr ? y : adapter->Apply(y, x);
}

std::vector<at::Tensor> ForwardTogether(
    const std::vector<const Linear*>& linears, const at::Tensor& x,
    const LinearCall& call) {
  const device::Traits& traits = call.traits;
  const bool whole = traits.one_node_layers && x.scalar_type() == at::kFloat;
  const bool nodes =
      std::all_of(linears.begin(), linears.end(), [&](const Linear* l) {
        if (!CanBeNode(*l, x)) return false;
        if (l->adapter == nullptr) {
          return whole ||
                 (IsTrained(l->weight) && NodePays(traits, x.scalar_type()));
        }
        return whole && linears.size() == 1 && CanBePart(*l->adapter);
      });
  const auto weights = nodes ? WeightsOf(linears, call) : nullptr;
  const Linear& first = *linears.front();
  if (weights != nullptr) {
    if (first.adapter != nullptr) weights->term = *first.adapter->low_rank();
    weights->inner_products = whole && traits.inner_products;
    const at::Tensor& a = weights->term.a;
    return LinearFunction::apply(x, Anchor(x, a.defined() ? a : first.weight),
                                 weights);
  }
  std::vector<at::Tensor> outputs;
  if (linears.size() > 1) {
    for (const Linear* l : linears) {
      outputs.push_back(ForwardTogether({l}, x, call).front());
    }
    return outputs;
  }
  at::Tensor y = first.Forward(x.dim() == 4 ? FromHeads(x) : x);
  if (call.gelu != nullptr) y = at::gelu(y, call.gelu);
  if (call.head_dim > 0) {
    y = y.view({call.rows, -1, y.size(1) / call.head_dim, call.head_dim})
            .transpose(1, 2);
  }
  return {y};
}

at::Tensor Embedding::Forward(const at::Tensor& ids,
                              at::ScalarType dtype) const {
  if (IsTrained(weight) && AddsHere(weight)) {
    return EmbeddingFunction::apply(weight, ids, padding_row, dtype);
  }
  return at::embedding(weight, ids, padding_row).to(dtype);
}

Normed LayerNorm::OfSum(const at::Tensor& x, const at::Tensor& residual,
                        const Dropout& dropout) const {
  const profile::BlockMark mark("mpsd::norm");
  if (x.scalar_type() == weight.scalar_type() && AddsHere(weight) &&
      AddsHere(bias)) {
    const auto outputs = NormFunction::apply(x, Maybe(residual),
                                             Anchor(x, weight), *this, dropout);
    return {outputs.front(), outputs.back()};
  }
  const at::Tensor sum =
      residual.defined() ? dropout.Apply(x, residual).first : x;
  const at::ScalarType dtype = x.scalar_type();
  return {at::layer_norm(sum, weight.sizes(), weight.to(dtype), bias.to(dtype),
                         eps),
          sum};
}

at::Tensor LayerNorm::Forward(const at::Tensor& x) const {
  return OfSum(x, {}, {}).y;
}

const char* GeluOf(const std::string& hidden_act) {
  if (hidden_act == "relu" || hidden_act == "silu" || hidden_act == "swish") {
    return nullptr;
  }
  return hidden_act == "gelu" ? "none" : "tanh";
}

at::Tensor Activate(const at::Tensor& x, const std::string& hidden_act) {
  if (const char* gelu = GeluOf(hidden_act)) return at::gelu(x, gelu);
  return hidden_act == "relu" ? at::relu(x) : at::silu(x);
}

std::pair<at::Tensor, at::Tensor> Dropout::Apply(
    const at::Tensor& x, const at::Tensor& residual) const {
  if (probability == 0) return {x + residual, {}};
  if (!device::TraitsOf(x.device()).draws_in_order) {
    auto [y, mask] = at::native_dropout(x, probability, /*train=*/true);
    return {y.add_(residual), mask};
  }
  base::CheckAtMost(x.size(0), rows * length, "tokens that are left, and all");
  at::Tensor noise = at::empty({rows, length, x.size(1)}, x.options());
  noise.bernoulli_(1 - probability);
  const int64_t left = x.size(0) / rows;
  noise = left == length ? noise.div_(1 - probability)
                         : noise.narrow(1, 0, left).div(1 - probability);
  noise = noise.view(x.sizes());
  return {at::addcmul(residual, x, noise), noise};
}

at::Tensor Dropout::Backward(const at::Tensor& dy,
                             const at::Tensor& mask) const {
  return mask.scalar_type() == at::kBool
             ? at::native_dropout_backward(dy, mask, 1 / (1 - probability))
             : dy * mask;
}

at::Tensor RmsNorm::Factor() const {
  const at::Tensor& w = copy.defined() ? copy : weight;
  if (!one_more.defined()) return w;
  if (!weight.requires_grad()) return one_more;
  return (weight.detach() + 1).to(w.scalar_type());
}

at::Tensor Capped(const at::Tensor& x, double softcap) {
  return softcap > 0 ? at::tanh(x / softcap) * softcap : x;
}

at::Tensor RmsNorm::Forward(const at::Tensor& x) const {
  const profile::BlockMark mark("mpsd::norm");
  const at::Tensor wide = x.to(at::kFloat);
  const at::Tensor scale =
      at::rsqrt(at::add(wide.square().mean({-1}, /*keepdim=*/true), eps));
  if (one_more.defined()) {
    return (wide * scale * (weight.to(at::kFloat) + 1)).to(x.scalar_type());
  }
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

// _compute_yarn_parameters: keeps the frequencies that turn often within the
// original length, divides those that turn rarely, and blends those between.
// `powers` [dim / 2] are the inverses of the frequencies.
at::Tensor ScaleYarn(const at::Tensor& powers, double theta,
                     const spec::YarnRopeScaling& s) {
  const double dim = 2.0 * static_cast<double>(powers.size(0));
  const auto place = [&](double rotations) {
    return dim *
           std::log(s.original_max_position_embeddings /
                    (rotations * 2 * std::numbers::pi)) /
           (2 * std::log(theta));
  };
  double low = place(s.beta_fast), high = place(s.beta_slow);
  if (s.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dim - 1);
  if (low == high) high += 0.001;
  const at::Tensor keep =
      1 - ((at::arange(powers.size(0), at::kFloat) - low) / (high - low))
              .clamp(0, 1);
  return (powers * s.factor).reciprocal() * (1 - keep) +
         powers.reciprocal() * keep;
}

// _compute_default_rope_parameters and its scaling variants.
at::Tensor InverseFrequencies(const spec::ModelConfig& config,
                              spec::LayerRope rope, bool beyond = false) {
  const at::Tensor exponents =
      at::arange(0, config.rotary_size(), 2, at::kLong).to(at::kFloat) /
      static_cast<double>(config.rotary_size());
  if (rope == spec::LayerRope::kLocal) {
    return at::pow(config.local_rope_theta, exponents).reciprocal();
  }
  const at::Tensor powers = at::pow(config.rope_theta, exponents);
  if (config.yarn) return ScaleYarn(powers, config.rope_theta, *config.yarn);
  if (config.longrope) {
    const auto& factors =
        beyond ? config.longrope->long_factor : config.longrope->short_factor;
    return (at::tensor(factors, at::kFloat) * powers).reciprocal();
  }
  at::Tensor f = powers.reciprocal();
  if (config.rope_scaling) f = ScaleLlama3(f, *config.rope_scaling);
  if (config.linear_rope_factor) f = f / *config.linear_rope_factor;
  return f;
}

}  // namespace

Rotary::Rotary(const spec::ModelConfig& config, at::Device device,
               spec::LayerRope rope)
    : inverse_frequencies_(InverseFrequencies(config, rope).to(device)) {
  if (config.yarn && rope == spec::LayerRope::kMain) {
    factor_ = config.yarn->attention_factor;
  }
  if (config.longrope && rope == spec::LayerRope::kMain) {
    factor_ = config.longrope->attention_factor;
    original_ = config.longrope->original_max_position_embeddings;
    long_frequencies_ =
        InverseFrequencies(config, rope, /*beyond=*/true).to(device);
  }
}

RotaryTable Rotary::Table(const at::Tensor& positions, at::ScalarType dtype,
                          int64_t longest) const {
  const bool beyond = long_frequencies_.defined() && longest > original_;
  const at::Tensor angles = positions.to(at::kFloat).unsqueeze(-1) *
                            (beyond ? long_frequencies_ : inverse_frequencies_);
  const at::Tensor both = at::cat({angles, angles}, -1).unsqueeze(1);
  if (factor_ == 1) return {both.cos().to(dtype), both.sin().to(dtype)};
  return {(both.cos() * factor_).to(dtype), (both.sin() * factor_).to(dtype)};
}

at::Tensor Rotary::Apply(const at::Tensor& x, const RotaryTable& table) {
  if (!table.cos.defined()) return x;
  const int64_t width = table.cos.size(-1), half = width / 2;
  if (width < x.size(-1)) {
    const auto parts = x.split_with_sizes({width, x.size(-1) - width}, -1);
    return at::cat({Apply(parts[0], table), parts[1]}, -1);
  }
  const at::Tensor low = x.narrow(-1, 0, half);
  const at::Tensor high = x.narrow(-1, half, half);
  return x * table.cos + at::cat({at::neg(high), low}, -1) * table.sin;
}

}  // namespace mpsd::model
