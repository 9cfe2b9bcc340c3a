// SPDX-License-Identifier: Apache-2.0
#include "core/explicit_step/head.h"

#include <cmath>

#include "core/model/head_loss.h"
#include "tests/core/explicit_step/tiny.h"

namespace mpsd::explicit_step {
namespace {

model::Linear Head(int64_t vocab, int64_t width) {
  model::Linear head;
  head.name = "lm_head";
  head.weight = at::randn({vocab, width}) * 0.3;
  return head;
}

// The loss under a head without an adapter.
LossHead::Result Loss(const at::Tensor& h, const model::Linear& head,
                      const at::Tensor& targets, double scale,
                      const Options& options) {
  LoraPack pack;
  return LossHead(head, options, pack).Loss(h, targets, scale);
}

class HeadTest : public testing::TestWithParam<Choice> {};

TEST_P(HeadTest, IsTheCrossEntropyWithItsGradient) {
  at::manual_seed(5);
  const model::Linear head = Head(37, 12);
  // Several pieces, and targets that are none.
  const int64_t rows = 600;
  const at::Tensor h = at::randn({1, rows, 12}).requires_grad_(true);
  model::LabelSelection labels;
  labels.rows = at::arange(rows);
  labels.targets = at::randint(37, {rows}, at::kLong);
  labels.targets.narrow(0, 590, 10).fill_(base::kIgnoreIndex);
  const at::Tensor sum = model::SumCrossEntropy(h, head, labels);
  (sum * 0.25).backward();
  Options options;
  options.traits = backend::TraitsOf(GetParam());
  const LossHead::Result ours =
      Loss(h.detach()[0], head, labels.targets, 0.25, options);
  EXPECT_LE(RelativeError(ours.sum, sum), 1e-6);
  EXPECT_LE(RelativeError(ours.grad, h.grad()[0]), 1e-6);
  EXPECT_EQ(ours.grad.narrow(0, 590, 10).abs().max().item<float>(), 0);
}

TEST_P(HeadTest, LossesOfHopelessTargetsAreExact) {
  model::Linear head;
  head.weight = at::tensor({200.0f, 0.0f}).view({2, 1});
  Options options;
  options.traits = backend::TraitsOf(GetParam());
  const LossHead::Result ours =
      Loss(at::ones({1, 1}), head, at::tensor({int64_t{1}}), 1, options);
  EXPECT_NEAR(ours.sum.item<double>(), 200, 1e-4);
}

// A vocabulary of several pieces of outputs, and a second call of fewer rows.
TEST(HeadOnCpuTest, KeepsItsBuffer) {
  at::manual_seed(9);
  const model::Linear head = Head(5000, 8);
  LoraPack pack;
  LossHead loss(head, {}, pack);
  const void* kept = nullptr;
  for (const int64_t rows : {24, 7, 24}) {
    const at::Tensor h = at::randn({1, rows, 8}).requires_grad_(true);
    model::LabelSelection labels;
    labels.rows = at::arange(rows);
    labels.targets = at::randint(5000, {rows}, at::kLong);
    const at::Tensor sum = model::SumCrossEntropy(h, head, labels);
    sum.backward();
    const LossHead::Result ours = loss.Loss(h.detach()[0], labels.targets, 1);
    EXPECT_LE(RelativeError(ours.sum, sum), 1e-6);
    EXPECT_LE(RelativeError(ours.grad, h.grad()[0]), 1e-6);
    if (kept == nullptr) kept = loss.buffer().data_ptr();
    EXPECT_EQ(loss.buffer().data_ptr(), kept);
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, HeadTest,
                         testing::Values(Choice::kCpu, Choice::kMps));

}  // namespace
}  // namespace mpsd::explicit_step
