// SPDX-License-Identifier: Apache-2.0
#include "core/explicit_step/norm.h"

#include "tests/core/explicit_step/tiny.h"

namespace mpsd::explicit_step {
namespace {

class NormTest : public testing::TestWithParam<Choice> {
 protected:
  NormTest() {
    at::manual_seed(1);
    norm_.weight = at::randn({24});
    norm_.eps = 1e-5;
    options_.traits = backend::TraitsOf(GetParam());
  }
  model::RmsNorm norm_;
  Options options_;
};

TEST_P(NormTest, IsTheModelsNormWithItsGradient) {
  const at::Tensor x = at::randn({6, 24}).requires_grad_(true);
  const at::Tensor dy = at::randn({6, 24});
  const at::Tensor y = norm_.Forward(x);
  y.backward(dy);
  const Normed ours = NormForward(x.detach(), norm_, options_);
  EXPECT_LE(RelativeError(ours.y, y), 1e-6);
  EXPECT_LE(RelativeError(NormApply(x.detach(), ours.rstd, norm_, options_), y),
            1e-6);
  const at::Tensor dx =
      NormBackward(dy, x.detach(), ours.rstd, norm_, {}, options_);
  EXPECT_LE(RelativeError(dx, x.grad()), 1e-6);
  const at::Tensor residual = at::randn({6, 24});
  const at::Tensor sum = NormBackward(dy, x.detach(), ours.rstd, norm_,
                                      residual.clone(), options_);
  EXPECT_LE(RelativeError(sum, x.grad() + residual), 1e-6);
}

TEST_P(NormTest, KeepsItsStatisticsInFp32) {
  const at::Tensor x = (at::randn({6, 24}) * 50).to(at::kBFloat16);
  norm_.weight = norm_.weight.to(at::kBFloat16);
  const Normed ours = NormForward(x, norm_, options_);
  EXPECT_EQ(ours.y.scalar_type(), at::kBFloat16);
  EXPECT_EQ(ours.rstd.scalar_type(), at::kFloat);
  EXPECT_LE(RelativeError(ours.y, norm_.Forward(x)), 4e-3);
}

TEST_P(NormTest, GradientsOfFewBitsAreRoundedNoMoreThanTheyMust) {
  const auto half = [](const at::Tensor& x) { return x.to(at::kBFloat16); };
  const auto full = [](const at::Tensor& x) { return x.to(at::kFloat); };
  const at::Tensor x = half(at::randn({64, 4096}));
  const at::Tensor dy = half(at::randn({64, 4096}));
  const at::Tensor residual = half(at::randn({64, 4096}));
  norm_.weight = half(at::ones({4096}));
  const at::Tensor rstd = NormForward(x, norm_, options_).rstd;
  const at::Tensor ours =
      NormBackward(dy, x, rstd, norm_, residual.clone(), options_);
  norm_.weight = full(norm_.weight);
  const at::Tensor exact =
      NormBackward(full(dy), full(x), rstd, norm_, full(residual), options_);
  // Half a unit in the last place of bf16 is 2e-3 of a number.
  EXPECT_LE(RelativeError(full(ours), exact), 4e-3);
  // No row is off as a whole, as it would be by a statistic of few bits: 2e-3.
  const at::Tensor off =
      ((full(ours) - exact) * exact).sum(-1) / exact.square().sum(-1);
  EXPECT_LE(off.abs().max().item<double>(), 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Kernels, NormTest,
                         testing::Values(Choice::kCpu, Choice::kMps));

}  // namespace
}  // namespace mpsd::explicit_step
