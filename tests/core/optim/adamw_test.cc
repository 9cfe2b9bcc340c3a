// SPDX-License-Identifier: Apache-2.0
#include "core/optim/adamw.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

namespace mpsd::optim {
namespace {

spec::TrainingSpec Spec() {
  spec::TrainingSpec spec;
  spec.weight_decay = 0.1;
  spec.adam_beta1 = 0.8;
  spec.adam_beta2 = 0.9;
  spec.adam_epsilon = 1e-6;
  return spec;
}

// The formula of adamw.h in double, one element.
struct Reference {
  double value, m = 0, v = 0;
  int t = 0;
  void Step(double g, double lr, double decay) {
    ++t;
    value -= lr * decay * value;
    m = 0.8 * m + 0.2 * g;
    v = 0.9 * v + 0.1 * g * g;
    value -= lr * (m / (1 - std::pow(0.8, t))) /
             (std::sqrt(v / (1 - std::pow(0.9, t))) + 1e-6);
  }
};

TEST(AdamWTest, FollowsTheFormulaAndDecaysOnlyItsGroup) {
  ParameterSet set({{"lora_A.weight", at::full({1}, 0.5)},
                    {"model.norm.weight", at::full({1}, 0.5)}},
                   at::kCPU);
  AdamW optimizer(set, Spec());
  Reference decayed{0.5}, plain{0.5};
  for (int i = 0; i < 5; ++i) {
    const double g = 0.3 - 0.2 * i, lr = 0.01 * (i + 1);
    for (const auto& group : set.groups()) {
      at::Tensor gradients = group.gradients;
      gradients.fill_(g);
    }
    optimizer.Step(lr);
    decayed.Step(g, lr, 0.1);
    plain.Step(g, lr, 0);
    EXPECT_NEAR(set.parameters()[0].value.item<float>(), decayed.value, 1e-6);
    EXPECT_NEAR(set.parameters()[1].value.item<float>(), plain.value, 1e-6);
  }
  EXPECT_EQ(optimizer.states()[0].step.item<float>(), 5);
}

TEST(AdamWTest, NormIsOverAllGroupsAndClippingScalesDownOnly) {
  ParameterSet set({{"lora_A.weight", at::zeros({1})},
                    {"model.norm.weight", at::zeros({1})}},
                   at::kCPU);
  AdamW optimizer(set, Spec());
  at::Tensor first = set.groups()[0].gradients;
  at::Tensor second = set.groups()[1].gradients;
  first.fill_(3);
  second.fill_(4);
  const at::Tensor norm = optimizer.GradientNorm();
  EXPECT_FLOAT_EQ(norm.item<float>(), 5);
  optimizer.Clip(norm, 10);
  EXPECT_FLOAT_EQ(first.item<float>(), 3);
  optimizer.Clip(norm, 1);
  EXPECT_NEAR(first.item<float>(), 0.6, 1e-6);
  EXPECT_NEAR(second.item<float>(), 0.8, 1e-6);
}

}  // namespace
}  // namespace mpsd::optim
