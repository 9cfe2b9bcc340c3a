// SPDX-License-Identifier: Apache-2.0
#include "core/model/head_loss.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <optional>

namespace mpsd::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor SumOf(const at::Tensor& logits, const at::Tensor& targets) {
  return at::cross_entropy_loss(logits, targets, /*weight=*/{},
                                at::Reduction::Sum, LabelSelection::kNoTarget);
}

// With l = W h: d(sum)/dh = (softmax(l) − onehot(target)) W per token.
class FrozenHeadLoss : public torch::autograd::Function<FrozenHeadLoss> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& hidden,
                            const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias,
                            const at::Tensor& targets, int64_t chunk,
                            bool needs_grad) {
    const int64_t tokens = hidden.size(0);
    at::Tensor sum = at::zeros({}, hidden.options().dtype(at::kFloat));
    at::Tensor grad = needs_grad ? at::empty_like(hidden) : at::Tensor();
    for (int64_t at = 0; at < tokens; at += chunk) {
      const int64_t size = std::min(chunk, tokens - at);
      const at::Tensor target = targets.narrow(0, at, size).unsqueeze(1);
      const at::Tensor real = target != LabelSelection::kNoTarget;
      const at::Tensor index = target.clamp_min(0);
      const at::Tensor logits =
          at::linear(hidden.narrow(0, at, size), weight, bias).to(at::kFloat);
      // Not exp(logits − logsumexp): rounding the log-sum-exp leaves rows that
      // do not sum to one, and a large common part of W amplifies that.
      at::Tensor d = at::log_softmax(logits, -1);
      const at::Tensor losses = d.gather(1, index).neg_();
      sum.add_((losses * real).sum());
      if (!needs_grad) continue;
      d.exp_();
      d.scatter_add_(1, index, at::full_like(losses, -1));
      d.mul_(real);
      grad.narrow(0, at, size)
          .copy_(at::matmul(d.to(weight.scalar_type()), weight));
    }
    ctx->save_for_backward({grad});
    return sum;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const at::Tensor grad = ctx->get_saved_variables()[0];
    return {grad * grads[0].to(grad.scalar_type()),
            at::Tensor(),
            at::Tensor(),
            at::Tensor(),
            at::Tensor(),
            at::Tensor()};
  }
};

bool IsFrozen(const Linear& head) {
  return head.adapter == nullptr && !head.weight.requires_grad() &&
         !(head.bias.defined() && head.bias.requires_grad());
}

}  // namespace

at::Tensor SumCrossEntropy(const at::Tensor& hidden, const Linear& head,
                           const LabelSelection& labels, int64_t chunk) {
  const at::Tensor picked =
      hidden.reshape({-1, hidden.size(-1)}).index_select(0, labels.rows);
  if (IsFrozen(head)) {
    const bool needs_grad =
        at::GradMode::is_enabled() && picked.requires_grad();
    std::optional<at::Tensor> bias;
    if (head.bias.defined()) bias = head.bias;
    return FrozenHeadLoss::apply(picked, head.weight, bias, labels.targets,
                                 chunk, needs_grad);
  }
  at::Tensor sum = at::zeros({}, hidden.options().dtype(at::kFloat));
  for (int64_t at = 0; at < picked.size(0); at += chunk) {
    const int64_t size = std::min(chunk, picked.size(0) - at);
    const at::Tensor logits = head.Forward(picked.narrow(0, at, size));
    sum =
        sum + SumOf(logits.to(at::kFloat), labels.targets.narrow(0, at, size));
  }
  return sum;
}

}  // namespace mpsd::model
