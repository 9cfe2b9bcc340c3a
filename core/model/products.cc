// SPDX-License-Identifier: Apache-2.0
#include "core/model/products.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

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

}  // namespace mpsd::products
