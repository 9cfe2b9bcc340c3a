// SPDX-License-Identifier: Apache-2.0
#include "core/selftest/network_check.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace mpsd::selftest {
namespace {

// A trial whose results on a device are off by `error` of the largest number.
NetworkTrial OffBy(double error, int64_t dims, int* references) {
  NetworkTrial trial;
  trial.kernel = "network";
  trial.shape = std::string("2");
  trial.train = [=](const Place&, bool reference) -> Tensors {
    if (reference) ++*references;
    const at::Tensor t = at::full({2}, reference ? 1 : 1 + error);
    return {dims == 1 ? t : t.unsqueeze(0)};
  };
  return trial;
}

double ErrorOf(const Check& check) {
  const auto device = *device::OpenCpu();
  return check.error(*device);
}

TEST(NetworkCheckTest, BothDtypesShareOneReference) {
  int references = 0;
  std::vector<Check> checks;
  AddNetwork(OffBy(0.5, 2, &references), checks);
  ASSERT_EQ(checks.size(), 2u);
  EXPECT_EQ(checks[0].shape, "2, float32");
  EXPECT_EQ(checks[0].tolerance, kNetworkFloatTolerance);
  EXPECT_EQ(checks[1].shape, "2, bfloat16");
  EXPECT_EQ(checks[1].tolerance, kNetworkBfloat16Tolerance);
  for (const Check& check : checks) EXPECT_NEAR(ErrorOf(check), 0.5, 1e-6);
  EXPECT_EQ(references, 1);
}

TEST(NetworkCheckTest, SumsOverTokensMayBeAddedInBf16) {
  int references = 0;
  std::vector<Check> checks;
  AddNetwork(OffBy(0.5, 1, &references), checks);
  EXPECT_NEAR(ErrorOf(checks[0]), 0.5, 1e-6);
  EXPECT_NEAR(ErrorOf(checks[1]), 0.5 / kSumsInBfloat16, 1e-6);
}

// The gradient of a key's bias: nothing but rounding, whose sign says nothing.
TEST(NetworkCheckTest, WhatIsZeroButForRoundingIsHeldToTheLargest) {
  const auto error = [](double expected, double actual) {
    NetworkTrial trial;
    trial.train = [=](const Place&, bool reference) -> Tensors {
      return {at::ones({2}), at::full({2}, reference ? expected : actual)};
    };
    std::vector<Check> checks;
    AddNetwork(trial, checks);
    return ErrorOf(checks[0]);
  };
  EXPECT_LE(error(1e-9, -1e-9), 1e-8);
  EXPECT_NEAR(error(1e-9, 0.5), 0.5, 1e-6);
  EXPECT_NEAR(error(0.5, 0.25), 0.5, 1e-6);
}

// A drawn number that drops what should be kept.
TEST(NetworkCheckTest, TheBestAttemptCounts) {
  for (const int attempts : {1, 2, 3}) {
    int calls = 0;
    NetworkTrial trial;
    trial.attempts = attempts;
    trial.train = [&calls](const Place&, bool reference) -> Tensors {
      const bool wrong = !reference && calls++ == 0;
      return {at::full({2}, wrong ? 2.0 : 1.0)};
    };
    std::vector<Check> checks;
    AddNetwork(trial, checks);
    EXPECT_NEAR(ErrorOf(checks[0]), attempts == 1 ? 1 : 0, 1e-6);
    EXPECT_EQ(calls, std::min(attempts, 2));
  }
}

TEST(NetworkCheckTest, GradientsThatJumpAreComparedInFp32Alone) {
  NetworkTrial trial;
  trial.in_bf16 = false;
  std::vector<Check> checks;
  AddNetwork(trial, checks);
  ASSERT_EQ(checks.size(), 1u);
  EXPECT_EQ(checks[0].shape, ", float32");
}

TEST(NetworkCheckTest, WideNetworksHaveSizesThatStandForThem) {
  Sizes wide;
  wide.width = 4096;
  EXPECT_EQ(WithinWidth(wide, 1024), Sizes{});
  EXPECT_EQ(WithinWidth(wide, 4096), wide);
}

}  // namespace
}  // namespace mpsd::selftest
