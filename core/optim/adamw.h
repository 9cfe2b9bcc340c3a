// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "core/optim/parameters.h"
#include "core/spec/train_spec.h"

namespace mpsd::optim {

// AdamW (Loshchilov & Hutter 2019) as torch.optim.AdamW(fused=True):
//   θ ← θ − lr·λ·θ;  m ← β₁m + (1−β₁)g;  v ← β₂v + (1−β₂)g²
//   θ ← θ − lr · m̂ / (√v̂ + ε),  m̂ = m/(1−β₁ᵗ), v̂ = v/(1−β₂ᵗ)
// λ = weight_decay for the decayed group, 0 for the other.
class AdamW {
 public:
  // `parameters` must outlive it.
  AdamW(ParameterSet& parameters, const spec::TrainingSpec& spec);

  // Returns the L2 norm of all gradients, an fp32 scalar on the device.
  at::Tensor GradientNorm() const;
  // Scales all gradients by max_norm / (norm + 1e-6) if that is below 1, as
  // torch.nn.utils.clip_grad_norm_ does; without a synchronisation.
  void Clip(const at::Tensor& norm, double max_norm);
  // Updates the parameters and their copies.
  void Step(double learning_rate);

  // The moments and step counts, by group, for checkpoints: flat fp32 tensors
  // that share the optimizer's memory.
  struct State {
    at::Tensor first_moment, second_moment;  // [n]
    at::Tensor step;                         // fp32 scalar [1]
  };
  std::vector<State>& states() { return states_; }

 private:
  ParameterSet& parameters_;
  const double beta1_, beta2_, epsilon_, weight_decay_;
  std::vector<State> states_;
};

}  // namespace mpsd::optim
