// SPDX-License-Identifier: Apache-2.0
#include "core/optim/adamw.h"

#include <ATen/ATen.h>

#include "core/base/check.h"

namespace mpsd::optim {

AdamW::AdamW(ParameterSet& parameters, const spec::TrainingSpec& spec)
    : parameters_(parameters),
      beta1_(spec.adam_beta1),
      beta2_(spec.adam_beta2),
      epsilon_(spec.adam_epsilon),
      weight_decay_(spec.weight_decay) {
  for (const ParameterSet::Group& group : parameters.groups()) {
    states_.push_back({at::zeros_like(group.values),
                       at::zeros_like(group.values),
                       at::zeros({}, group.values.options())});
  }
}

namespace {

// Numbers of one norm. The CPU adds squares one after the other in fp32: the
// norm of 134 million numbers would be 1.7 % too small. A large buffer's is
// therefore the norm of its rows' norms.
constexpr int64_t kAtOnce = 1 << 20, kRow = 4096;

void AddNorms(const at::Tensor& flat, std::vector<at::Tensor>& norms) {
  const auto norm = [&](const at::Tensor& x) {
    norms.push_back(
        at::linalg_vector_norm(x, 2, {-1}, /*keepdim=*/x.dim() < 2));
  };
  if (flat.numel() <= kAtOnce) return norm(flat);
  const int64_t rest = flat.numel() % kRow, whole = flat.numel() - rest;
  norm(flat.narrow(0, 0, whole).view({-1, kRow}));
  if (rest > 0) norm(flat.narrow(0, whole, rest));
}

}  // namespace

at::Tensor AdamW::GradientNorm() const {
  // The norm of the groups' norms is the norm of all gradients. The result
  // stays on the device: the host reads it with the loss, once per step.
  std::vector<at::Tensor> norms;
  for (const ParameterSet::Group& group : parameters_.groups()) {
    AddNorms(group.gradients, norms);
  }
  base::Check(!norms.empty(), "there is something to train");
  const at::Tensor all = norms.size() == 1 ? norms[0] : at::cat(norms);
  return all.numel() == 1 ? all.squeeze(0) : at::linalg_vector_norm(all, 2);
}

void AdamW::Clip(const at::Tensor& norm, double max_norm) {
  base::Check(max_norm > 0, "gradients are clipped to a norm");
  // A factor of 1 means "no clipping", so that the host need not wait for the
  // norm. Torch divides a number by a tensor as reciprocal and product, and so
  // does clip_grad_norm_.
  const at::Tensor factor =
      (at::add(norm, 1e-6).reciprocal() * max_norm).clamp_max(1.0);
  for (const ParameterSet::Group& group : parameters_.groups()) {
    at::Tensor gradients = group.gradients;
    gradients.mul_(factor);
  }
}

void AdamW::Step(double learning_rate) {
  base::CheckEqual(states_.size(), parameters_.groups().size(),
                   "moments and the groups that they were made for");
  for (size_t i = 0; i < states_.size(); ++i) {
    const ParameterSet::Group& group = parameters_.groups()[i];
    State& state = states_[i];
    // The kernel corrects the moments' bias by βᵗ with this step's own t: the
    // count is incremented first, as in torch.optim.
    state.step.add_(1);
    at::_fused_adamw_({group.values}, {group.gradients}, {state.first_moment},
                      {state.second_moment}, /*max_exp_avg_sqs=*/{},
                      {state.step}, learning_rate, beta1_, beta2_,
                      group.decay ? weight_decay_ : 0.0, epsilon_,
                      /*amsgrad=*/false, /*maximize=*/false);
  }
  parameters_.RefreshCopies();
}

}  // namespace mpsd::optim
