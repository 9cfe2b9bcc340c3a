// SPDX-License-Identifier: Apache-2.0
#include "core/quant/linear.h"

#include <gtest/gtest.h>

#include "core/quant/nf4.h"
#include "tests/core/quant/golden.h"

namespace mpsd::quant {
namespace {

// Counts how often the matrix is made.
class Counted : public QuantizedWeight {
 public:
  explicit Counted(at::Tensor w)
      : QuantizedWeight(w.size(0), w.size(1)), weight_(std::move(w)) {}
  at::Tensor Dense(at::ScalarType dtype) const override {
    ++made;
    return weight_.to(dtype);
  }
  int64_t bytes() const override { return 0; }
  at::Device device() const override { return at::kCPU; }
  mutable int made = 0;

 private:
  const at::Tensor weight_;
};

TEST(LinearForwardTest, IsALinearLayerWithAGradientForItsInput) {
  const auto weight = MakeNf4(QuantizeNf4(at::randn({12, 64}), true), at::kCPU);
  const at::Tensor bias = at::randn({12});
  const at::Tensor x = at::randn({2, 3, 64}).requires_grad_(true);
  const at::Tensor other = x.detach().clone().requires_grad_(true);
  const at::Tensor y = LinearForward(x, weight, bias);
  const at::Tensor expected =
      at::linear(other, weight->Dense(at::kFloat), bias);
  EXPECT_TRUE(at::equal(y, expected));
  const at::Tensor dy = at::randn_like(y);
  y.backward(dy);
  expected.backward(dy);
  EXPECT_TRUE(at::allclose(x.grad(), other.grad(), 1e-6, 1e-6));
}

TEST(LinearForwardTest, WithoutABias) {
  const auto weight = MakeNf4(QuantizeNf4(at::randn({5, 64}), false), at::kCPU);
  const at::Tensor x = at::randn({4, 64});
  EXPECT_TRUE(at::equal(LinearForward(x, weight, {}),
                        at::linear(x, weight->Dense(at::kFloat))));
}

TEST(LinearForwardTest, MakesTheMatrixAgainInTheBackward) {
  const auto weight = std::make_shared<Counted>(at::randn({4, 6}));
  const at::Tensor x = at::randn({3, 6}).requires_grad_(true);
  const at::Tensor y = LinearForward(x, weight, {});
  EXPECT_EQ(weight->made, 1);
  y.sum().backward();
  EXPECT_EQ(weight->made, 2);
}

TEST(LinearForwardTest, ComputesInTheInputsDtype) {
  const auto weight = MakeNf4(QuantizeNf4(at::randn({5, 64}), false), at::kCPU);
  const at::Tensor x =
      at::randn({4, 64}).to(at::kBFloat16).requires_grad_(true);
  const at::Tensor y = LinearForward(x, weight, {});
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  y.sum().backward();
  EXPECT_EQ(x.grad().scalar_type(), at::kBFloat16);
}

}  // namespace
}  // namespace mpsd::quant
