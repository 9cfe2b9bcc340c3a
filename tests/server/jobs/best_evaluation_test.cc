// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/best_evaluation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace mpsd::jobs {
namespace {

Goal Of(const std::string& training) {
  return GoalOf(R"({"model": "m", "task": "SEQ_CLS",
      "dataset": {"train": "t.csv"}, "training": {)" +
                training + "}}");
}

TEST(GoalOf, TheLossIsToBeSmall) {
  for (const char* training : {"", R"("metric_for_best_model": "loss")",
                               R"("metric_for_best_model": "eval_loss")"}) {
    EXPECT_EQ(Of(training).metric, "") << training;
    EXPECT_FALSE(Of(training).greater) << training;
  }
  EXPECT_EQ(GoalOf("no spec").metric, "");
}

TEST(GoalOf, AMetricGoesItsOwnWayUnlessTold) {
  const Goal f1 = Of(R"("metric_for_best_model": "eval_f1")");
  EXPECT_EQ(f1.metric, "f1");
  EXPECT_TRUE(f1.greater);
  EXPECT_FALSE(Of(R"("metric_for_best_model": "f1",
                     "greater_is_better": false)")
                   .greater);
}

TEST(IsBetter, StrictlyByTheGoal) {
  const Evaluated low{1, 2.0, 0, 0, {{"f1", 0.5}}};
  const Evaluated high{2, 3.0, 0, 0, {{"f1", 0.75}}};
  EXPECT_TRUE(IsBetter(low, high, {"", false}));
  EXPECT_FALSE(IsBetter(high, low, {"", false}));
  EXPECT_TRUE(IsBetter(high, low, {"f1", true}));
  EXPECT_FALSE(IsBetter(low, low, {"f1", true}));
  EXPECT_FALSE(IsBetter(low, low, {"", false}));
}

TEST(IsBetter, WithoutANumberNever) {
  const Evaluated some{1, 2, 0, 0, {{"f1", 0.5}}}, none{2, 1, 0, 0, {}};
  const Evaluated nan{3, 1, 0, 0, {{"f1", std::nan("")}}};
  for (const Evaluated& without : {none, nan}) {
    EXPECT_FALSE(IsBetter(without, some, {"f1", true}));
    EXPECT_TRUE(IsBetter(some, without, {"f1", true}));
    EXPECT_FALSE(IsBetter(without, without, {"f1", true}));
  }
}

}  // namespace
}  // namespace mpsd::jobs
