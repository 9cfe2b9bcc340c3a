// SPDX-License-Identifier: Apache-2.0
// Real models have logits in the twenties over embeddings with a large common
// mean: the gradient is what is left when that mean cancels, so each row of
// softmax must sum to one far beyond the rounding of a log-sum-exp of twenty.
// SmolLM2's LoRA gradients were 2e-4 off for it.
#include <ATen/ATen.h>

#include "core/model/head_loss.h"
#include "gtest/gtest.h"
#include "tests/tools/parity.h"

namespace mpsd::parity {
namespace {

constexpr int64_t kTokens = 64, kHidden = 64, kVocabulary = 512;

at::Tensor GradientOfTransformers(const at::Tensor& hidden,
                                  const at::Tensor& weight,
                                  const at::Tensor& targets) {
  const at::Tensor leaf = hidden.detach().clone().requires_grad_(true);
  at::cross_entropy_loss(at::linear(leaf, weight), targets, {},
                         at::Reduction::Sum)
      .backward();
  return leaf.grad();
}

TEST(HeadLossPrecision, IsThatOfCrossEntropyWhereACommonMeanCancels) {
  at::manual_seed(5);
  const at::Tensor mean = at::ones({kHidden}) * 3;
  model::Linear head;
  head.weight = mean + 0.1 * at::randn({kVocabulary, kHidden});
  const at::Tensor hidden =
      at::full({kTokens, kHidden}, 0.12) + 0.3 * at::randn({kTokens, kHidden});
  const at::Tensor targets = at::randint(kVocabulary, {kTokens}, at::kLong);

  const at::Tensor leaf = hidden.clone().requires_grad_(true);
  model::SumCrossEntropy(leaf.view({1, kTokens, kHidden}), head,
                         {at::arange(kTokens), targets, kTokens})
      .backward();
  const at::Tensor exact = GradientOfTransformers(
      hidden.to(at::kDouble), head.weight.to(at::kDouble), targets);
  const double theirs = RelativeError(
      GradientOfTransformers(hidden, head.weight, targets), exact);
  EXPECT_LE(RelativeError(leaf.grad(), exact), 2 * theirs);
  EXPECT_LT(theirs, 1e-5);
}

}  // namespace
}  // namespace mpsd::parity
