// SPDX-License-Identifier: Apache-2.0
#include "core/model/head_loss.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace mpsd::model {
namespace {

constexpr int64_t kTokens = 10, kHidden = 6, kVocab = 17;

class HeadLossTest : public testing::Test {
 protected:
  void SetUp() override {
    at::manual_seed(5);
    head_.name = "lm_head";
    head_.weight = at::randn({kVocab, kHidden});
    hidden_ = at::randn({2, kTokens / 2, kHidden}).requires_grad_();
    labels_.rows = at::tensor(
        {int64_t{1}, int64_t{2}, int64_t{6}, int64_t{9}, int64_t{0}});
    labels_.targets = at::tensor(
        {int64_t{3}, int64_t{0}, int64_t{16}, int64_t{3}, base::kIgnoreIndex});
    labels_.count = 4;
  }
  // By torch's own cross entropy over the real targets.
  at::Tensor Expected() {
    const at::Tensor logits =
        at::linear(hidden_.reshape({-1, kHidden})
                       .index_select(0, labels_.rows.narrow(0, 0, 4)),
                   head_.weight);
    return at::cross_entropy_loss(logits, labels_.targets.narrow(0, 0, 4), {},
                                  at::Reduction::Sum);
  }
  at::Tensor GradientOf(const at::Tensor& loss) {
    hidden_.mutable_grad() = at::Tensor();
    (loss * 0.25).backward();
    return hidden_.grad().clone();
  }
  Linear head_;
  at::Tensor hidden_;
  LabelSelection labels_;
};

TEST_F(HeadLossTest, ChunksChangeNeitherLossNorGradient) {
  const at::Tensor expected = Expected();
  const at::Tensor gradient = GradientOf(expected);
  for (int64_t chunk : {1, 2, 3, 5, 100}) {
    const at::Tensor loss = SumCrossEntropy(hidden_, head_, labels_, chunk);
    EXPECT_TRUE(at::allclose(loss, expected)) << chunk;
    EXPECT_TRUE(at::allclose(GradientOf(loss), gradient, 1e-5, 1e-7)) << chunk;
  }
}

TEST_F(HeadLossTest, ATrainableHeadGetsItsGradient) {
  head_.weight.requires_grad_();
  const at::Tensor gradient = GradientOf(Expected());
  const at::Tensor head_gradient = head_.weight.grad().clone();
  head_.weight.mutable_grad() = at::Tensor();
  const at::Tensor loss = SumCrossEntropy(hidden_, head_, labels_, 2);
  EXPECT_TRUE(at::allclose(GradientOf(loss), gradient, 1e-5, 1e-7));
  EXPECT_TRUE(at::allclose(head_.weight.grad(), head_gradient, 1e-5, 1e-7));
}

// Trained whole: an fp32 master under bf16 activations.
TEST_F(HeadLossTest, AMasterHeadGetsItsGradientInFp32) {
  head_.weight.requires_grad_();
  head_.compute_in_input_dtype = true;
  GradientOf(Expected());
  const at::Tensor expected = head_.weight.grad().clone();
  head_.weight.mutable_grad() = at::Tensor();
  const at::Tensor narrow = hidden_.to(at::kBFloat16);
  (SumCrossEntropy(narrow, head_, labels_, 2) * 0.25).backward();
  EXPECT_EQ(head_.weight.grad().scalar_type(), at::kFloat);
  EXPECT_LE((head_.weight.grad() - expected).norm().item<double>(),
            2e-2 * expected.norm().item<double>());
}

// modules_to_save: fp32 arithmetic within a bf16 model.
TEST_F(HeadLossTest, AnFp32HeadInABf16ModelComputesInFp32) {
  const at::Tensor narrow = hidden_.detach().to(at::kBFloat16);
  const at::Tensor logits =
      at::linear(narrow.to(at::kFloat).reshape({-1, kHidden}), head_.weight)
          .to(at::kBFloat16)
          .to(at::kFloat)
          .index_select(0, labels_.rows);
  const at::Tensor expected = at::cross_entropy_loss(
      logits, labels_.targets, {}, at::Reduction::Sum, base::kIgnoreIndex);
  EXPECT_TRUE(at::allclose(SumCrossEntropy(narrow, head_, labels_, 3), expected,
                           1e-5, 1e-6));
}

TEST_F(HeadLossTest, AnAdaptedHeadIsLeftToAutograd) {
  class Doubling : public LinearAdapter {
    at::Tensor Apply(const at::Tensor& base, const at::Tensor&) override {
      return base * 2;
    }
  };
  const at::Tensor weight = head_.weight;
  head_.weight = weight * 2;
  const at::Tensor gradient = GradientOf(Expected());
  head_.weight = weight;
  head_.adapter = std::make_unique<Doubling>();
  const at::Tensor loss = SumCrossEntropy(hidden_, head_, labels_, 2);
  EXPECT_TRUE(at::allclose(GradientOf(loss), gradient, 1e-5, 1e-7));
}

TEST_F(HeadLossTest, WithoutGradientsItIsTheSameNumber) {
  const at::Tensor expected = Expected().detach();
  at::NoGradGuard no_grad;
  EXPECT_TRUE(
      at::allclose(SumCrossEntropy(hidden_, head_, labels_, 3), expected));
}

TEST_F(HeadLossTest, PaddedTargetsCountNothing) {
  labels_.targets.fill_(base::kIgnoreIndex);
  const at::Tensor loss = SumCrossEntropy(hidden_, head_, labels_);
  EXPECT_EQ(loss.item<float>(), 0);
  EXPECT_EQ(GradientOf(loss).abs().max().item<float>(), 0);
}

}  // namespace
}  // namespace mpsd::model
