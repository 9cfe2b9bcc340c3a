// SPDX-License-Identifier: Apache-2.0
#include "core/selftest/numeric_check.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace mpsd::selftest {
namespace {

Numeric Doubled(double factor) {
  Numeric n;
  n.kernel = "double";
  n.shape = std::string("3");
  n.inputs = []() -> Tensors { return {at::ones({3})}; };
  n.function = [=](const Tensors& t) -> Tensors { return {t[0] * factor}; };
  n.reference = [](const Tensors& t) -> Tensors { return {t[0] * 2}; };
  return n;
}

TEST(NumericCheckTest, ToleratesWhatTheDtypeRounds) {
  std::vector<Check> checks;
  AddBoth(Doubled(2), checks);
  ASSERT_EQ(checks.size(), 2);
  EXPECT_EQ(checks[0].shape, "3, float32");
  EXPECT_EQ(checks[0].tolerance, kFloatTolerance);
  EXPECT_EQ(checks[1].shape, "3, bfloat16");
  EXPECT_EQ(checks[1].tolerance, kBfloat16Tolerance);
  const auto device = *device::OpenCpu();
  EXPECT_EQ(checks[0].error(*device), 0);
  EXPECT_NEAR(MakeCheck(Doubled(3), at::kFloat).error(*device), 0.5, 1e-6);
}

}  // namespace
}  // namespace mpsd::selftest
