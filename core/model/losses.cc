// SPDX-License-Identifier: Apache-2.0
#include "core/model/losses.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <optional>

#include "core/base/check.h"
#include "core/device/block_mark.h"
#include "core/device/device.h"
#include "core/model/products.h"

namespace mpsd::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor SumOf(const at::Tensor& logits, const at::Tensor& targets) {
  return at::cross_entropy_loss(logits, targets, /*weight=*/{},
                                at::Reduction::Sum, base::kIgnoreIndex);
}

// With l = W h for each token, or l = c · tanh(W h / c) of a head with a soft
// cap, whose derivative has the factor 1 − (l / c)²:
//   d(sum)/dh = (softmax(l) − onehot(target)) W
//   d(sum)/dW = Σ (softmax(l) − onehot(target)) hᵀ over the tokens
// Both are computed in the forward, while a chunk's logits exist; the backward
// only scales them.
class FusedHeadLoss : public torch::autograd::Function<FusedHeadLoss> {
 public:
  // `multiplied` (W or a copy of it) and h are multiplied in `dtype`; the
  // logits have the dtype of h, the gradient of W has that of W.
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& hidden,
                            const at::Tensor& weight,
                            const at::Tensor& multiplied,
                            const std::optional<at::Tensor>& bias,
                            const at::Tensor& targets, int64_t chunk,
                            at::ScalarType dtype, double softcap,
                            bool needs_hidden, bool needs_weight) {
    const int64_t tokens = hidden.size(0);
    base::CheckLess(0, chunk, "tokens at a time");
    base::CheckEqual(tokens, targets.size(0), "tokens and their targets");
    const at::Tensor w = multiplied.to(dtype);
    std::optional<at::Tensor> b;
    if (bias) b = bias->to(dtype);
    at::Tensor sum = at::zeros({}, hidden.options().dtype(at::kFloat));
    at::Tensor by_hidden = needs_hidden ? at::empty_like(hidden) : at::Tensor();
    at::Tensor by_weight = needs_weight ? at::zeros_like(weight) : at::Tensor();
    for (int64_t at = 0; at < tokens; at += chunk) {
      const int64_t size = std::min(chunk, tokens - at);
      const at::Tensor h = hidden.narrow(0, at, size).to(dtype);
      const at::Tensor logits = Capped(
          at::linear(h, w, b).to(hidden.scalar_type()).to(at::kFloat), softcap);
      const at::Tensor d = Derivative(logits, targets.narrow(0, at, size), sum,
                                      needs_hidden || needs_weight);
      if (!d.defined()) continue;
      if (softcap > 0) d.mul_(1 - (logits / softcap).square());
      const at::Tensor by_logits = d.to(hidden.scalar_type()).to(dtype);
      if (needs_hidden) {
        by_hidden.narrow(0, at, size).copy_(products::TimesWide(by_logits, w));
      }
      if (needs_weight) {
        by_weight.add_(
            at::matmul(Transposed(by_logits), h).to(by_weight.scalar_type()));
      }
    }
    ctx->save_for_backward({by_hidden, by_weight});
    return sum;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list saved = ctx->get_saved_variables();
    variable_list result(10);
    if (saved[0].defined()) {
      result[0] = saved[0] * grads[0].to(saved[0].scalar_type());
    }
    // In place, since the gradient is as large as the head.
    if (saved[1].defined()) {
      result[1] = saved[1].mul_(grads[0].to(saved[1].scalar_type()));
    }
    return result;
  }

 private:
  // Adds the loss of fp32 `logits` to `sum`. Returns the derivative of the loss
  // if `wanted`.
  static at::Tensor Derivative(const at::Tensor& logits,
                               const at::Tensor& targets, at::Tensor& sum,
                               bool wanted) {
    const at::Tensor target = targets.unsqueeze(1);
    const at::Tensor real = target != base::kIgnoreIndex;
    const at::Tensor index = target.clamp_min(0);
    // Not exp(logits − logsumexp): rounding the log-sum-exp leaves rows that do
    // not sum to one, and a large common part of W amplifies that.
    at::Tensor d = at::log_softmax(logits, -1);
    const at::Tensor losses = d.gather(1, index).neg_();
    sum.add_((losses * real).sum());
    if (!wanted) return at::Tensor();
    d.exp_();
    d.scatter_add_(1, index, at::full_like(losses, -1));
    return d.mul_(real);
  }

  // A matrix transposed as the left operand of a GEMM; a copy if the device
  // multiplies such views incorrectly.
  static at::Tensor Transposed(const at::Tensor& matrix) {
    return device::TraitsOf(matrix.device()).transposed_left
               ? matrix.t()
               : matrix.t().contiguous();
  }
};

bool CanFuse(const Linear& head) {
  return head.adapter == nullptr &&
         !(head.bias.defined() && head.bias.requires_grad());
}

}  // namespace

at::Tensor SumCrossEntropy(const at::Tensor& hidden, const Linear& head,
                           const LabelSelection& labels, int64_t chunk) {
  const profile::BlockMark mark("mpsd::head");
  const at::Tensor picked =
      hidden.reshape({-1, hidden.size(-1)}).index_select(0, labels.rows);
  if (CanFuse(head)) {
    const bool grad = at::GradMode::is_enabled();
    std::optional<at::Tensor> bias;
    if (head.bias.defined()) bias = head.bias;
    const at::Tensor& w = head.copy.defined() ? head.copy : head.weight;
    return FusedHeadLoss::apply(
        picked, head.weight, w.detach(), bias, labels.targets, chunk,
        head.compute_in_input_dtype ? picked.scalar_type()
                                    : head.weight.scalar_type(),
        head.softcap, grad && picked.requires_grad(),
        grad && head.weight.requires_grad());
  }
  at::Tensor sum = at::zeros({}, hidden.options().dtype(at::kFloat));
  for (int64_t at = 0; at < picked.size(0); at += chunk) {
    const int64_t size = std::min(chunk, picked.size(0) - at);
    const at::Tensor logits = Capped(
        head.Forward(picked.narrow(0, at, size)).to(at::kFloat), head.softcap);
    sum = sum + SumOf(logits, labels.targets.narrow(0, at, size));
  }
  return sum;
}

at::Tensor TokenLosses(const at::Tensor& hidden, const Linear& head,
                       const LabelSelection& labels, int64_t chunk) {
  const profile::BlockMark mark("mpsd::head");
  const at::Tensor picked =
      hidden.reshape({-1, hidden.size(-1)}).index_select(0, labels.rows);
  std::vector<at::Tensor> losses;
  for (int64_t at = 0; at < picked.size(0); at += chunk) {
    const int64_t size = std::min(chunk, picked.size(0) - at);
    const at::Tensor logits = Capped(
        head.Forward(picked.narrow(0, at, size)).to(at::kFloat), head.softcap);
    losses.push_back(at::cross_entropy_loss(
        logits, labels.targets.narrow(0, at, size), /*weight=*/{},
        at::Reduction::None, base::kIgnoreIndex));
  }
  return at::cat(losses);
}

at::Tensor SumClassLoss(spec::ProblemType type, const at::Tensor& logits,
                        const at::Tensor& targets, const at::Tensor& weights) {
  base::CheckEqual(logits.size(0), targets.size(0), "rows and their targets");
  const at::Tensor wide = logits.to(at::kFloat);
  std::optional<at::Tensor> w;
  if (weights.defined()) w = weights;
  if (type == spec::ProblemType::kSingleLabel) {
    return at::cross_entropy_loss(wide, targets, w, at::Reduction::Sum);
  }
  const at::Tensor wanted = targets.to(at::kFloat).reshape(wide.sizes());
  if (type == spec::ProblemType::kRegression) {
    return at::mse_loss(wide, wanted, at::Reduction::Sum);
  }
  return at::binary_cross_entropy_with_logits(wide, wanted, /*weight=*/{}, w,
                                              at::Reduction::Sum);
}

}  // namespace mpsd::model
