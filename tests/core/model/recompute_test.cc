// SPDX-License-Identifier: Apache-2.0
#include "core/model/recompute.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace mpsd::model {
namespace {

TEST(RecomputeTest, GradientsOfInputAndCapturedParametersAreThePlainOnes) {
  at::manual_seed(6);
  const at::Tensor weight = at::randn({4, 4}).requires_grad_();
  auto run = [&](const at::Tensor& x) {
    return at::tanh(at::linear(x, weight));
  };
  auto gradients = [&](bool recompute) {
    at::manual_seed(7);
    const at::Tensor x = at::randn({3, 4}).requires_grad_();
    weight.mutable_grad() = at::Tensor();
    const at::Tensor y =
        recompute ? Recompute(run, Recompute(run, x)) : run(run(x));
    y.square().sum().backward();
    return std::pair(x.grad(), weight.grad().clone());
  };
  const auto plain = gradients(false), again = gradients(true);
  EXPECT_TRUE(at::equal(plain.first, again.first));
  EXPECT_TRUE(at::allclose(plain.second, again.second));
}

TEST(RecomputeTest, RunsTwiceAndDrawsTheSameNumbers) {
  int runs = 0;
  std::vector<at::Tensor> drawn;
  auto run = [&](const at::Tensor& x) {
    ++runs;
    drawn.push_back(at::rand({4}));
    return x * drawn.back();
  };
  const at::Tensor x = at::ones({4}).requires_grad_();
  const at::Tensor y = Recompute(run, x);
  const at::Tensor between = at::rand({1});
  y.sum().backward();
  EXPECT_EQ(runs, 2);
  EXPECT_TRUE(at::equal(drawn[0], drawn[1]));
  EXPECT_TRUE(at::equal(x.grad(), drawn[0]));
  // The draws after it are not disturbed either.
  EXPECT_FALSE(at::equal(between, at::rand({1})));
}

TEST(RecomputeTest, WhereNothingIsDrawnTheGeneratorIsLeftAlone) {
  std::vector<at::Tensor> drawn;
  auto run = [&](const at::Tensor& x) {
    drawn.push_back(at::rand({4}));
    return x * 2;
  };
  const at::Tensor x = at::ones({4}).requires_grad_();
  Recompute(run, x, /*draws=*/false).sum().backward();
  ASSERT_EQ(drawn.size(), 2u);
  EXPECT_FALSE(at::equal(drawn[0], drawn[1]));
}

TEST(RecomputeTest, AnInputWithoutGradientStillReachesTheParameters) {
  const at::Tensor weight = at::ones({2}).requires_grad_();
  const at::Tensor x = at::full({2}, 3.0);
  Recompute([&](const at::Tensor& in) { return in * weight; }, x)
      .sum()
      .backward();
  EXPECT_TRUE(at::equal(weight.grad(), x));
}

}  // namespace
}  // namespace mpsd::model
