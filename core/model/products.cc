// SPDX-License-Identifier: Apache-2.0
#include "core/model/products.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/base/check.h"
#include "core/device/device.h"

namespace mpsd::products {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// With y = a b:   da = dy bᵀ,  db = aᵀ dy.
// With y = a bᵀ:  da = dy b,   db = dyᵀ a.
class ProductFunction : public torch::autograd::Function<ProductFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& a,
                            const at::Tensor& b, bool transposed) {
    ctx->save_for_backward({a, b});
    ctx->saved_data["transposed"] = transposed;
    return at::matmul(a, transposed ? b.transpose(-1, -2) : b);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor &a = saved[0], &b = saved[1];
    const bool transposed = ctx->saved_data["transposed"].toBool();
    const at::Tensor d = grads[0].contiguous();
    variable_list result(3);
    if (ctx->needs_input_grad(0)) {
      result[0] = at::matmul(d, transposed ? b : b.transpose(-1, -2));
    }
    if (ctx->needs_input_grad(1)) {
      const at::Tensor& left = transposed ? d : a;
      result[1] =
          at::matmul(left.transpose(-1, -2).contiguous(), transposed ? a : d);
    }
    return result;
  }
};

class ContiguousGradient
    : public torch::autograd::Function<ContiguousGradient> {
 public:
  static at::Tensor forward(AutogradContext*, const at::Tensor& x) {
    return x.view(x.sizes());
  }
  static variable_list backward(AutogradContext*, variable_list grads) {
    return {grads[0].contiguous()};
  }
};

}  // namespace

at::Tensor Product(const at::Tensor& a, const at::Tensor& b) {
  return ProductFunction::apply(a, b, /*transposed=*/false);
}

at::Tensor ProductOfTransposed(const at::Tensor& a, const at::Tensor& b) {
  return ProductFunction::apply(a, b, /*transposed=*/true);
}

at::Tensor WithContiguousGradient(const at::Tensor& x) {
  return ContiguousGradient::apply(x);
}

namespace {

// The number of outputs per piece; absent: all outputs at a time.
std::optional<int64_t> PieceOf(const at::Tensor& x, const at::Tensor& weight) {
  const std::optional<int64_t> most = device::TraitsOf(x.device()).max_sum;
  return most && weight.size(0) > *most ? most : std::nullopt;
}

}  // namespace

at::Tensor LinearInPieces(const at::Tensor& x, const at::Tensor& weight,
                          const at::Tensor& bias, int64_t outputs) {
  std::vector<at::Tensor> pieces;
  for (int64_t at = 0; at < weight.size(0); at += outputs) {
    const int64_t size = std::min(outputs, weight.size(0) - at);
    const at::Tensor w = weight.narrow(0, at, size);
    pieces.push_back(bias.defined() ? at::linear(x, w, bias.narrow(0, at, size))
                                    : at::linear(x, w));
  }
  return at::cat(pieces, -1);
}

at::Tensor WideLinear(const at::Tensor& x, const at::Tensor& weight,
                      const at::Tensor& bias) {
  if (const auto piece = PieceOf(x, weight)) {
    return LinearInPieces(x, weight, bias, *piece);
  }
  return bias.defined() ? at::linear(x, weight, bias) : at::linear(x, weight);
}

at::Tensor TimesInPieces(const at::Tensor& d, const at::Tensor& weight,
                         int64_t inner) {
  base::CheckLess(0, inner, "numbers of a piece");
  base::CheckEqual(d.size(1), weight.size(0), "columns and the weight's rows");
  // The pieces are added in fp32, so that only their own products are rounded.
  at::Tensor sum =
      at::zeros({d.size(0), weight.size(1)}, d.options().dtype(at::kFloat));
  for (int64_t at = 0; at < weight.size(0); at += inner) {
    const int64_t size = std::min(inner, weight.size(0) - at);
    sum.add_(at::matmul(d.narrow(1, at, size).contiguous(),
                        weight.narrow(0, at, size))
                 .to(at::kFloat));
  }
  return sum.to(d.scalar_type());
}

at::Tensor TimesWide(const at::Tensor& d, const at::Tensor& weight) {
  const auto piece = PieceOf(d, weight);
  return piece ? TimesInPieces(d, weight, *piece) : at::matmul(d, weight);
}

namespace {

// `left` transposed, as the left operand of a product with `right`.
at::Tensor Across(const at::Tensor& left, const at::Tensor& right,
                  const device::Traits& traits) {
  const bool copied =
      right.scalar_type() == at::kFloat && !traits.transposed_left;
  return copied ? left.t().contiguous() : left.t();
}

}  // namespace

void AddProduct(at::Tensor gradient, const at::Tensor& left,
                const at::Tensor& right, const device::Traits& traits,
                double scale) {
  const at::Tensor across = Across(left, right, traits);
  // The sum over micro-batches stays in fp32: added up in bf16, late
  // micro-batches would be rounded away.
  if (right.scalar_type() == at::kFloat) {
    gradient.addmm_(across, right, /*beta=*/1, scale);
  } else if (traits.wide_products) {
    at::addmm_out(gradient, gradient, across, right, at::kFloat, /*beta=*/1,
                  scale);
  } else {
    gradient.add_(at::mm(across, right).to(at::kFloat), scale);
  }
}

void SetProduct(at::Tensor gradient, const at::Tensor& left,
                const at::Tensor& right, const device::Traits& traits) {
  const at::Tensor across = Across(left, right, traits);
  if (right.scalar_type() == at::kFloat) {
    at::mm_out(gradient, across, right);
  } else if (traits.wide_products) {
    at::mm_out(gradient, across, right, at::kFloat);
  } else {
    gradient.copy_(at::mm(across, right));
  }
}

at::Tensor AdjacentRows(const std::vector<at::Tensor>& parts) {
  const at::Tensor& first = parts.front();
  if (parts.size() == 1 || !first.defined()) return first;
  std::vector<int64_t> sizes = first.sizes().vec();
  sizes[0] = 0;
  int64_t end = first.storage_offset();
  for (const at::Tensor& part : parts) {
    if (!part.defined() || !part.is_contiguous() || !part.is_alias_of(first) ||
        part.storage_offset() != end ||
        part.sizes().slice(1) != first.sizes().slice(1)) {
      return {};
    }
    sizes[0] += part.size(0);
    end += part.numel();
  }
  return first.as_strided(sizes, first.strides(), first.storage_offset());
}

namespace {

// Below this many rows oneDNN gains nothing. Heads have few rows, and a
// gradient summed over few rows is most sensitive to the order of summation.
constexpr int64_t kFewRows = 64;

// An operator that torch registers for its compiler.
const std::optional<c10::OperatorHandle>& OneDnn() {
  static const std::optional<c10::OperatorHandle> handle =
      c10::Dispatcher::singleton().findSchema(
          {"mkldnn::_linear_pointwise", ""});
  return handle;
}

}  // namespace

at::Tensor InnerProduct(const at::Tensor& x, const at::Tensor& w,
                        const std::optional<at::Tensor>& bias) {
  const auto& handle = OneDnn();
  if (!handle || x.size(0) < kFewRows) return at::linear(x, w, bias);
  torch::jit::Stack stack;
  stack.emplace_back(x);
  stack.emplace_back(w);
  stack.emplace_back(bias);
  stack.emplace_back(std::string("none"));
  stack.emplace_back(c10::List<std::optional<at::Scalar>>());
  stack.emplace_back(std::string());
  handle->callBoxed(stack);
  return stack.front().toTensor();
}

}  // namespace mpsd::products
