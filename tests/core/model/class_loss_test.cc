// SPDX-License-Identifier: Apache-2.0
#include "core/model/class_loss.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

namespace mpsd::model {
namespace {

using spec::ProblemType;

const at::Tensor kNone;

TEST(ClassLossTest, SingleLabelIsTheWeightedSumOfLogProbabilities) {
  const at::Tensor z = at::randn({3, 4});
  const at::Tensor targets = at::tensor({2, 0, 2}, at::kLong);
  const at::Tensor w = at::tensor({0.5f, 1.f, 3.f, 1.f});
  const at::Tensor log_p = z.log_softmax(-1);
  const at::Tensor plain = -(log_p[0][2] + log_p[1][0] + log_p[2][2]);
  const at::Tensor weighted =
      -(3 * log_p[0][2] + 0.5 * log_p[1][0] + 3 * log_p[2][2]);
  EXPECT_TRUE(at::allclose(
      SumClassLoss(ProblemType::kSingleLabel, z, targets, kNone), plain));
  EXPECT_TRUE(at::allclose(
      SumClassLoss(ProblemType::kSingleLabel, z, targets, w), weighted));
}

TEST(ClassLossTest, RegressionIsTheSumOfSquares) {
  const at::Tensor z = at::tensor({1.f, 2.f}).view({2, 1});
  const at::Tensor loss =
      SumClassLoss(ProblemType::kRegression, z, at::tensor({3.f, 1.f}), kNone);
  EXPECT_FLOAT_EQ(loss.item<float>(), 5);
}

TEST(ClassLossTest, MultiLabelWeighsThePositives) {
  const at::Tensor z = at::tensor({1.f, -2.f}).view({1, 2});
  const at::Tensor t = at::tensor({1.f, 0.f}).view({1, 2});
  const auto log_sigmoid = [](double x) { return -std::log1p(std::exp(-x)); };
  EXPECT_NEAR(
      SumClassLoss(ProblemType::kMultiLabel, z, t, kNone).item<double>(),
      -log_sigmoid(1) - log_sigmoid(2), 1e-6);
  EXPECT_NEAR(
      SumClassLoss(ProblemType::kMultiLabel, z, t, at::tensor({4.f, 9.f}))
          .item<double>(),
      -4 * log_sigmoid(1) - log_sigmoid(2), 1e-6);
}

TEST(ClassLossTest, IsFp32OfBf16Logits) {
  const at::Tensor z = at::randn({2, 3}).to(at::kBFloat16);
  const at::Tensor loss = SumClassLoss(ProblemType::kSingleLabel, z,
                                       at::tensor({0, 1}, at::kLong), kNone);
  EXPECT_EQ(loss.scalar_type(), at::kFloat);
}

}  // namespace
}  // namespace mpsd::model
