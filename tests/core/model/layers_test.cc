// SPDX-License-Identifier: Apache-2.0
// Values against formulas written out here; equality with Transformers is
// tests/core/parity's.
#include "core/model/layers.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

namespace mpsd::model {
namespace {

spec::ModelConfig RotaryConfig() {
  spec::ModelConfig config;
  config.head_dim = 8;
  config.rope_theta = 100;
  return config;
}

TEST(LinearTest, IsAMatrixProductWithBias) {
  Linear linear;
  linear.weight = at::randn({3, 4});
  linear.bias = at::randn({3});
  const at::Tensor x = at::randn({2, 5, 4});
  EXPECT_TRUE(at::allclose(linear.Forward(x),
                           at::matmul(x, linear.weight.t()) + linear.bias));
  EXPECT_EQ(linear.in_features(), 4);
  EXPECT_EQ(linear.out_features(), 3);
}

TEST(LinearTest, AnFp32LayerInABf16ModelComputesInFp32) {
  Linear linear;
  linear.weight = at::randn({3, 4});
  const at::Tensor x = at::randn({2, 4}).to(at::kBFloat16);
  const at::Tensor y = linear.Forward(x);
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(at::equal(
      y, at::linear(x.to(at::kFloat), linear.weight).to(at::kBFloat16)));
}

class CountingAdapter : public LinearAdapter {
 public:
  at::Tensor Apply(const at::Tensor& base, const at::Tensor& x) override {
    return base + x.sum();
  }
};

TEST(LinearTest, AnAdapterSeesInputAndOutput) {
  Linear linear;
  linear.weight = at::eye(2);
  linear.adapter = std::make_unique<CountingAdapter>();
  const at::Tensor x = at::ones({1, 2});
  EXPECT_TRUE(at::equal(linear.Forward(x), at::full({1, 2}, 3.0)));
}

TEST(RmsNormTest, IsTheFormula) {
  const at::Tensor x = at::randn({2, 3, 6});
  const RmsNorm norm{"n", at::randn({6}), 1e-3};
  const at::Tensor expected =
      x / at::sqrt(x.pow(2).mean(-1, true) + 1e-3) * norm.weight;
  EXPECT_TRUE(at::allclose(norm.Forward(x), expected));
  EXPECT_EQ(RmsNorm({"n", norm.weight.to(at::kBFloat16), 1e-3})
                .Forward(x.to(at::kBFloat16))
                .scalar_type(),
            at::kBFloat16);
}

TEST(RotaryTest, RotatesPairsByPositionTimesFrequency) {
  const Rotary rotary(RotaryConfig(), at::kCPU);
  const at::Tensor positions =
      at::tensor({int64_t{0}, int64_t{3}}).view({1, 2});
  const at::Tensor x = at::randn({1, 1, 2, 8});
  const at::Tensor y = Rotary::Apply(x, rotary.Table(positions, at::kFloat));
  EXPECT_TRUE(at::allclose(y.select(2, 0), x.select(2, 0)));
  for (int i = 0; i < 4; ++i) {
    const double angle = 3 * std::pow(100.0, -2.0 * i / 8);
    const float a = x[0][0][1][i].item<float>();
    const float b = x[0][0][1][i + 4].item<float>();
    EXPECT_NEAR(y[0][0][1][i].item<float>(),
                a * std::cos(angle) - b * std::sin(angle), 1e-5);
    EXPECT_NEAR(y[0][0][1][i + 4].item<float>(),
                b * std::cos(angle) + a * std::sin(angle), 1e-5);
  }
}

TEST(RotaryTest, LinearScalingStretchesPositions) {
  spec::ModelConfig scaled = RotaryConfig();
  scaled.linear_rope_factor = 2;
  const at::Tensor six = at::full({1, 1}, 6, at::kLong);
  const at::Tensor three = at::full({1, 1}, 3, at::kLong);
  EXPECT_TRUE(at::allclose(
      Rotary(scaled, at::kCPU).Table(six, at::kFloat).cos,
      Rotary(RotaryConfig(), at::kCPU).Table(three, at::kFloat).cos));
}

TEST(RotaryTest, Llama3ScalingKeepsShortAndDividesLongWavelengths) {
  spec::ModelConfig config;
  config.head_dim = 128;
  config.rope_theta = 500000;
  config.rope_scaling = spec::Llama3RopeScaling{};
  const at::Tensor one = at::ones({1, 1}, at::kLong);
  const at::Tensor scaled = Rotary(config, at::kCPU).Table(one, at::kFloat).sin;
  config.rope_scaling.reset();
  const at::Tensor plain = Rotary(config, at::kCPU).Table(one, at::kFloat).sin;
  auto at_index = [](const at::Tensor& t, int i) {
    return t[0][0][0][i].item<double>();
  };
  EXPECT_FLOAT_EQ(at_index(scaled, 0), at_index(plain, 0));
  // sin is the angle itself for the longest wavelength.
  EXPECT_NEAR(at_index(scaled, 63) * 8 / at_index(plain, 63), 1, 1e-4);
}

}  // namespace
}  // namespace mpsd::model
