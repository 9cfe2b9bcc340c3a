// SPDX-License-Identifier: Apache-2.0
// Shapes and edges; equality with Transformers is tests/core/parity's.
#include "core/optim/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mpsd::optim {
namespace {

spec::TrainingSpec Spec(const std::string& type) {
  spec::TrainingSpec spec;
  spec.learning_rate = 2;
  spec.lr_scheduler_type = type;
  return spec;
}

TEST(ScheduleTest, LinearRisesAndFalls) {
  spec::TrainingSpec spec = Spec("linear");
  spec.warmup_steps = 2;
  const Schedule schedule = *Schedule::Create(spec, 6);
  std::vector<double> rates;
  for (int i = 0; i < 7; ++i) rates.push_back(schedule.LearningRate(i));
  EXPECT_THAT(rates, testing::ElementsAre(0, 1, 2, 1.5, 1, 0.5, 0));
}

TEST(ScheduleTest, WarmupStepsOverrideTheRatioWhichRoundsUp) {
  spec::TrainingSpec spec = Spec("constant_with_warmup");
  spec.warmup_ratio = 0.11;
  EXPECT_EQ(Schedule::Create(spec, 10)->warmup_steps(), 2);
  spec.warmup_steps = 5;
  EXPECT_EQ(Schedule::Create(spec, 10)->warmup_steps(), 5);
}

TEST(ScheduleTest, EveryTypeStartsAtItsPeakWithoutWarmupAndStaysPositive) {
  for (const char* type :
       {"linear", "cosine", "cosine_with_restarts", "polynomial", "constant",
        "constant_with_warmup", "inverse_sqrt"}) {
    const Schedule schedule = *Schedule::Create(Spec(type), 8);
    EXPECT_DOUBLE_EQ(schedule.LearningRate(0), 2) << type;
    for (int i = 0; i < 12; ++i) {
      EXPECT_GE(schedule.LearningRate(i), 0) << type;
      EXPECT_LE(schedule.LearningRate(i), 2) << type;
    }
  }
}

TEST(ScheduleTest, AnUnknownTypeIsNamedWithTheKnownOnes) {
  const absl::Status status = Schedule::Create(Spec("cosin"), 8).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("cosin"));
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr("inverse_sqrt"));
}

}  // namespace
}  // namespace mpsd::optim
