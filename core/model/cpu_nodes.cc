// SPDX-License-Identifier: Apache-2.0
#include "core/model/cpu_nodes.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>

#include "core/device/traits.h"
#include "core/products/inner_product.h"

namespace mpsd::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
// A node's input that may be absent: autograd refuses undefined tensors, so
// that such an input is an optional.
using MaybeTensor = std::optional<at::Tensor>;

MaybeTensor Maybe(const at::Tensor& tensor) {
  return tensor.defined() ? MaybeTensor(tensor) : std::nullopt;
}

bool TakesGradientHere(const at::Tensor& parameter) {
  return parameter.is_leaf() && parameter.grad().defined();
}

// Adds scale · left · right to the .grad of `parameter` and returns undefined;
// where the parameter has no .grad yet, returns the product for autograd.
// Nothing for a frozen parameter.
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

class LinearFunction : public torch::autograd::Function<LinearFunction> {
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
    at::Tensor noise, in = rows, narrow;
    if (a.defined()) {
      if (dropout > 0) {
        noise = at::empty_like(rows).bernoulli_(1 - dropout).div_(1 - dropout);
        in = rows * noise;
      }
      narrow = at::mm(in, a.t());
      y.addmm_(narrow, b.t(), 1, scaling);
    }
    const bool keeps = w.requires_grad() || a.defined();
    ctx->save_for_backward({w, bias, a, b, keeps ? rows : at::Tensor(),
                            noise.defined() ? in : at::Tensor(), narrow,
                            noise});
    ctx->saved_data["scaling"] = scaling;
    ctx->saved_data["shape"] = x.sizes().vec();
    std::vector<int64_t> shape = x.sizes().vec();
    shape.back() = w.size(0);
    return y.view(shape);
  }

  static variable_list backward(AutogradContext* ctx,
                                const variable_list& gradients) {
    const variable_list s = ctx->get_saved_variables();
    const at::Tensor &w = s[0], &a = s[2], &b = s[3], &rows = s[4];
    const at::Tensor &narrow = s[6], &noise = s[7];
    const at::Tensor in = noise.defined() ? s[5] : rows;
    const at::Tensor dy = gradients[0].reshape({-1, w.size(0)});
    const at::Tensor across = dy.t();
    at::Tensor dx, dw, da, db, thin;
    if (a.defined()) {
      const double scaling = ctx->saved_data["scaling"].toDouble();
      thin = at::mm(dy, b).mul_(scaling);
      da = GiveProduct(a, thin.t(), in);
      db = GiveProduct(b, across, narrow, scaling);
    }
    if (ctx->needs_input_grad(0)) {
      dx = products::InnerProduct(dy, w.t());
      if (noise.defined()) {
        dx.add_(at::mm(thin, a).mul_(noise));
      } else if (a.defined()) {
        dx.addmm_(thin, a);
      }
      dx = dx.view(ctx->saved_data["shape"].toIntVector());
    }
    if (w.requires_grad()) dw = GiveProduct(w, across, rows);
    return {dx, dw, GiveSum(s[1], dy), da, db, at::Tensor(), at::Tensor()};
  }
};

class EmbeddingFunction : public torch::autograd::Function<EmbeddingFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& weight,
                            const at::Tensor& ids, int64_t padding_row) {
    ctx->save_for_backward({weight, ids});
    ctx->saved_data["padding"] = padding_row;
    return at::embedding(weight, ids, padding_row);
  }

  static variable_list backward(AutogradContext* ctx,
                                const variable_list& gradients) {
    const variable_list s = ctx->get_saved_variables();
    const at::Tensor& weight = s[0];
    const at::Tensor ids = s[1].reshape({-1});
    at::Tensor dy = gradients[0].reshape({-1, weight.size(1)});
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
  return LinearFunction::apply(x, linear.weight, Maybe(linear.bias),
                               Maybe(term.a), Maybe(term.b), term.scaling,
                               term.dropout);
}

at::Tensor CpuEmbedding(const Embedding& embedding, const at::Tensor& ids) {
  return EmbeddingFunction::apply(embedding.weight, ids, embedding.padding_row);
}

}  // namespace mpsd::model
