// SPDX-License-Identifier: Apache-2.0
#include "core/selftest/compare.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace mpsd::selftest {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(CompareTest, ErrorsAreRelativeToTheLargestNumber) {
  const at::Tensor expected = at::tensor({1.0, -4.0});
  EXPECT_EQ(RelativeError(expected, expected), 0);
  EXPECT_DOUBLE_EQ(RelativeError(at::tensor({2.0, -4.0}), expected), 0.25);
}

TEST(CompareTest, WhatCannotBeComparedIsInfinitelyWrong) {
  const at::Tensor expected = at::tensor({1.0, 2.0});
  EXPECT_TRUE(std::isinf(RelativeError(at::tensor({1.0}), expected)));
  EXPECT_TRUE(std::isinf(RelativeError(at::tensor({kNan, 2.0}), expected)));
}

TEST(CompareTest, BothSidesGetTheRoundedNumbers) {
  const Function same = [](const Tensors& t) { return t; };
  const Tensors inputs = {at::tensor({1.0f / 3, 2.0f}), at::tensor({7, 8})};
  EXPECT_EQ(ErrorOf(same, same, inputs, at::kCPU, at::kBFloat16), 0);
  const Function fewer = [](const Tensors& t) -> Tensors { return {t[0]}; };
  EXPECT_TRUE(std::isinf(ErrorOf(fewer, same, inputs, at::kCPU, at::kFloat)));
}

TEST(CompareTest, GradientsFollowTheResults) {
  const Function square = [](const Tensors& t) -> Tensors {
    return {t[0] * t[0]};
  };
  const Tensors results =
      WithGradients(square)({at::tensor({3.0f, 5.0f}), at::tensor({1})});
  ASSERT_EQ(results.size(), 2);
  EXPECT_TRUE(
      at::allclose(results[1], at::tensor({6.0f, 10 * std::cos(1.0f)})));
}

TEST(CompareTest, NumbersDependOnTheSeedAlone) {
  EXPECT_TRUE(at::equal(Normal({9}, 1), Normal({9}, 1)));
  EXPECT_FALSE(at::equal(Normal({9}, 1), Normal({9}, 2)));
  const at::Tensor whole = Integers({100}, 7, 3);
  EXPECT_GE(whole.min().item<int64_t>(), 0);
  EXPECT_LT(whole.max().item<int64_t>(), 7);
}

}  // namespace
}  // namespace mpsd::selftest
