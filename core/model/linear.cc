// SPDX-License-Identifier: Apache-2.0
#include "core/model/linear.h"

#include <ATen/ATen.h>
#include <ATen/core/ivalue.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include <utility>

namespace mpsd::quant {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Weight = std::shared_ptr<const QuantizedWeight>;

// Autograd saves only values and tensors: this holder lets the node keep the
// codes alive without saving a dense matrix.
struct Layer : torch::CustomClassHolder {
  Layer(Weight w, at::Tensor b) : weight(std::move(w)), bias(std::move(b)) {}
  const Weight weight;
  const at::Tensor bias;
};

class Function : public torch::autograd::Function<Function> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x,
                            const c10::intrusive_ptr<Layer>& layer) {
    ctx->saved_data["layer"] = c10::IValue::make_capsule(layer);
    return at::linear(x, layer->weight->Dense(x.scalar_type()), layer->bias);
  }
  static variable_list backward(AutogradContext* ctx,
                                const variable_list& gradients) {
    const auto capsule = ctx->saved_data["layer"].toCapsule();
    const Layer& layer = static_cast<const Layer&>(*capsule);
    const at::Tensor& dy = gradients[0];
    // dx = dy W, with W decoded again; the frozen weight has no gradient.
    return {at::matmul(dy, layer.weight->Dense(dy.scalar_type())),
            at::Tensor()};
  }
};

}  // namespace

at::Tensor LinearForward(const at::Tensor& x, const Weight& weight,
                         const at::Tensor& bias) {
  return Function::apply(x, c10::make_intrusive<Layer>(weight, bias));
}

}  // namespace mpsd::quant
