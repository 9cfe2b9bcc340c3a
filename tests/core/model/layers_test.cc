// SPDX-License-Identifier: Apache-2.0
// Values against formulas written out here; equality with Transformers is
// tests/core/parity's.
#include "core/model/layers.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/core/calls.h"

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

TEST(LinearTest, AMasterWeightIsCastAndGetsItsGradientInFp32) {
  Linear linear;
  linear.weight = at::randn({3, 4}).requires_grad_(true);
  linear.bias = at::randn({3}).requires_grad_(true);
  linear.compute_in_input_dtype = true;
  const at::Tensor x = at::randn({2, 4}).to(at::kBFloat16);
  const at::Tensor y = linear.Forward(x);
  EXPECT_TRUE(at::equal(y, at::linear(x, linear.weight.to(at::kBFloat16),
                                      linear.bias.to(at::kBFloat16))));
  y.sum().backward();
  EXPECT_EQ(linear.weight.grad().scalar_type(), at::kFloat);
  EXPECT_EQ(linear.bias.grad().scalar_type(), at::kFloat);
  EXPECT_GT(linear.weight.grad().abs().sum().item<float>(), 0);
}

TEST(EmbeddingTest, GivesRowsInTheAskedDtypeAndNoGradientToThePaddingRow) {
  const Embedding embedding{"e", at::randn({4, 2}).requires_grad_(true), 0};
  const at::Tensor ids = at::tensor({0, 3, 3}, at::kLong);
  const at::Tensor x = embedding.Forward(ids, at::kBFloat16);
  EXPECT_TRUE(
      at::equal(x, embedding.weight.index_select(0, ids).to(at::kBFloat16)));
  x.sum().backward();
  const at::Tensor per_row = embedding.weight.grad().sum(-1);
  EXPECT_TRUE(at::equal(per_row, at::tensor({0.f, 0.f, 0.f, 4.f})));
}

TEST(LayerNormTest, IsTheFormula) {
  const at::Tensor x = at::randn({2, 3, 6});
  const LayerNorm norm{"n", at::randn({6}), at::randn({6}), 1e-3};
  const at::Tensor centred = x - x.mean({-1}, true);
  const at::Tensor expected =
      centred / at::sqrt(centred.square().mean({-1}, true) + 1e-3) *
          norm.weight +
      norm.bias;
  EXPECT_TRUE(at::allclose(norm.Forward(x), expected, 1e-5, 1e-6));
}

TEST(LayerNormTest, Fp32WeightsWorkInABf16Model) {
  const LayerNorm norm{"n", at::randn({6}).requires_grad_(true),
                       at::randn({6}).requires_grad_(true), 1e-5};
  const at::Tensor y = norm.Forward(at::randn({2, 6}).to(at::kBFloat16));
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  y.sum().backward();
  EXPECT_EQ(norm.weight.grad().scalar_type(), at::kFloat);
}

TEST(ActivateTest, KnowsTransformersNames) {
  const at::Tensor x = at::linspace(-3, 3, 13);
  const at::Tensor inner = 0.7978845608 * (x + 0.044715 * x.pow(3));
  const at::Tensor tanh_gelu = 0.5 * x * (1 + inner.tanh());
  const at::Tensor gelu = 0.5 * x * (1 + (x / std::sqrt(2.0)).erf());
  EXPECT_TRUE(at::allclose(Activate(x, "gelu"), gelu, 1e-5, 1e-6));
  EXPECT_TRUE(at::allclose(Activate(x, "gelu_new"), tanh_gelu, 1e-5, 1e-6));
  EXPECT_TRUE(
      at::allclose(Activate(x, "gelu_pytorch_tanh"), tanh_gelu, 1e-5, 1e-6));
  EXPECT_TRUE(at::equal(Activate(x, "relu"), x.clamp_min(0)));
  EXPECT_TRUE(at::allclose(Activate(x, "silu"), x * x.sigmoid()));
  EXPECT_TRUE(at::allclose(Activate(x, "swish"), x * x.sigmoid()));
}

TEST(TokenDropoutTest, AFirstTokenAloneGetsTheMaskItHasAmongAll) {
  const at::Tensor x = at::randn({3, 5, 8});
  at::manual_seed(4);
  const at::Tensor all = TokenDropout(x, 0.4, 5);
  const at::Tensor after_all = at::rand({1});
  at::manual_seed(4);
  const at::Tensor first = TokenDropout(x.narrow(1, 0, 1), 0.4, 5);
  EXPECT_TRUE(at::equal(first, all.narrow(1, 0, 1)));
  EXPECT_TRUE(at::equal(at::rand({1}), after_all));
  EXPECT_FALSE(at::equal(all, x));
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
  EXPECT_TRUE(linear.draws());
  linear.adapter.reset();
  EXPECT_FALSE(linear.draws());
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

// Gradients of heads are copied for the sake of MPS alone.
TEST(RmsNormTest, OtherDevicesGetNoNodeForGradientsOfHeads) {
  const auto options = at::device(at::kMeta);
  const RmsNorm norm{"n", at::ones({8}, options), 1e-6};
  const at::Tensor x =
      at::ones({2, 3, 4, 8}, options).transpose(1, 2).requires_grad_();
  auto calls = testing_support::CallsOf([&] { norm.Forward(x); });
  EXPECT_GT(calls["aten::rsqrt"], 0);
  EXPECT_EQ(calls["aten::view"], 0);
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
