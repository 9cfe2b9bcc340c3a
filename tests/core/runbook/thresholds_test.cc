// SPDX-License-Identifier: Apache-2.0
#include "core/runbook/thresholds.h"

#include <cmath>
#include <limits>

#include "core/base/limits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mpsd::runbook {
namespace {

using testing::HasSubstr;

TEST(Thresholds, TheTableHasItsOrderAndASourceForEach) {
  std::string before;
  for (const Threshold& threshold : kThresholds) {
    EXPECT_LT(before, threshold.name);
    before = threshold.name;
    EXPECT_NE(std::string(threshold.unit), "") << before;
    EXPECT_THAT(threshold.source,
                testing::AnyOf(testing::StartsWith("runbook: "),
                               testing::StartsWith("mpsd: ")))
        << before;
  }
}

// The three of the field's runbook.
TEST(Thresholds, TheRunbooksOwn) {
  const Thresholds thresholds;
  EXPECT_EQ(thresholds.Get("compare.speedup"), 0.22);
  EXPECT_EQ(thresholds.Get("compare.gpu_utilization"), 0.18);
  EXPECT_EQ(thresholds.Get("smoke.memory_growth"), 0.26);
}

TEST(Thresholds, ARequestSetsSomeAndKeepsTheOthers) {
  const auto thresholds = Thresholds::FromJson({{"compare.speedup", 0.5}});
  ASSERT_TRUE(thresholds.ok()) << thresholds.status();
  EXPECT_EQ(thresholds->Get("compare.speedup"), 0.5);
  EXPECT_EQ(thresholds->Get("smoke.epochs"), 10);
}

TEST(Thresholds, WhatMakesNoSenseIsRefused) {
  const auto unknown = Thresholds::FromMap({{"compare.sped\x1bup", 1}});
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(unknown.status().message()),
              testing::AllOf(HasSubstr("compare.sped\\x1bup"),
                             HasSubstr("compare.speedup")));
  for (const double value :
       {-0.1, std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_FALSE(Thresholds::FromMap({{"compare.speedup", value}}).ok());
  }
  EXPECT_THAT(std::string(Thresholds::FromJson({{"compare.speedup", "much"}})
                              .status()
                              .message()),
              HasSubstr("compare.speedup: must be a number, is \"much\""));
}

// Each bound at its value and one past it.
TEST(Thresholds, CountsOfStepsHaveBounds) {
  const auto may = [](const char* name, double value) {
    return Thresholds::FromMap({{name, value}}).ok();
  };
  EXPECT_TRUE(may("profile.steps", 1) && may("profile.steps", 1000));
  EXPECT_FALSE(may("profile.steps", 0) || may("profile.steps", 1001));
  EXPECT_FALSE(may("profile.steps", 2.5));
  EXPECT_TRUE(may("smoke.epochs", 2) && may("smoke.epochs", 1000));
  EXPECT_FALSE(may("smoke.epochs", 1) || may("smoke.epochs", 1001));
  EXPECT_TRUE(may("compare.speedup", 0) && may("compare.speedup", 1e300));
  for (const Threshold& threshold : kThresholds) {
    EXPECT_TRUE(may(threshold.name, threshold.value)) << threshold.name;
  }
}

TEST(Thresholds, ARequestHasNoMoreThanItMay) {
  std::map<std::string, double> values;
  for (int i = 0; i <= limits::kThresholds; ++i) {
    values[std::to_string(i)] = 1;
  }
  EXPECT_EQ(Thresholds::FromMap(values).status().message(),
            "thresholds: has 65 entries, at most 64 are allowed");
}

TEST(ThresholdsDeathTest, ANameThatTheTableLacks) {
  EXPECT_DEATH(Thresholds().Get("nothing"), "");
}

}  // namespace
}  // namespace mpsd::runbook
