// SPDX-License-Identifier: Apache-2.0
#include "core/train/best_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace mpsd::train {
namespace {

BestModel Best(const std::string& metric,
               std::optional<bool> greater = std::nullopt,
               double threshold = 0) {
  spec::TrainingSpec training;
  training.metric_for_best_model = metric;
  training.greater_is_better = greater;
  training.early_stopping_threshold = threshold;
  auto best = BestModel::Create(training, {"accuracy", "f1"});
  EXPECT_TRUE(best.ok()) << best.status();
  return *std::move(best);
}

TEST(BestModelTest, TheLossIsTheDefaultAndShouldFall) {
  const BestModel best = Best("");
  EXPECT_EQ(best.metric(), "loss");
  EXPECT_TRUE(best.IsBetter(1, std::nullopt));
  EXPECT_TRUE(best.IsBetter(1, 2));
  EXPECT_FALSE(best.IsBetter(2, 2));
  EvalResult result;
  result.loss = 0.25;
  EXPECT_EQ(best.ValueOf(result), 0.25);
}

TEST(BestModelTest, AMetricRisesAndMayHaveEvalBeforeItsName) {
  const BestModel best = Best("eval_f1");
  EXPECT_EQ(best.metric(), "f1");
  EXPECT_TRUE(best.IsBetter(0.9, 0.8));
  EXPECT_FALSE(best.IsBetter(0.7, 0.8));
  EvalResult result;
  result.metrics = {{"accuracy", 0.5}, {"f1", 0.75}};
  EXPECT_EQ(best.ValueOf(result), 0.75);
}

TEST(BestModelTest, GreaterIsBetterCanBeSaid) {
  EXPECT_TRUE(Best("f1", false).IsBetter(0.1, 0.2));
}

// EarlyStoppingCallback: a gain must exceed the threshold, the best model need
// not.
TEST(BestModelTest, AGainExceedsTheThreshold) {
  const BestModel best = Best("accuracy", std::nullopt, 0.1);
  EXPECT_TRUE(best.IsBetter(0.55, 0.5));
  EXPECT_FALSE(best.Gains(0.55, 0.5));
  EXPECT_TRUE(best.Gains(0.65, 0.5));
  EXPECT_TRUE(best.Gains(0.1, std::nullopt));
}

TEST(BestModelTest, WhatIsNoNumberIsNeverBetter) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(Best("f1").IsBetter(nan, std::nullopt));
  EXPECT_FALSE(Best("f1").Gains(nan, 0.5));
}

TEST(BestModelTest, AnUnknownMetricIsRefusedWithThoseThereAre) {
  spec::TrainingSpec training;
  training.metric_for_best_model = "acuracy";
  const absl::Status status =
      BestModel::Create(training, {"accuracy", "f1"}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr("there are loss, accuracy, f1"));
}

}  // namespace
}  // namespace mpsd::train
