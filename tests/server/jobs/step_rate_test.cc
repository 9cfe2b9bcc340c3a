// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/step_rate.h"

#include <gtest/gtest.h>

namespace mpsd::jobs {
namespace {

Progress Step(int64_t step, int64_t tokens, double seconds) {
  Progress progress;
  progress.step = step;
  progress.total_steps = 100;
  progress.tokens = tokens;
  progress.step_seconds = seconds;
  return progress;
}

TEST(StepRate, TheFirstStepStandsAlone) {
  StepRate rate;
  Progress progress = Step(1, 500, 2);
  rate.Apply(progress);
  EXPECT_DOUBLE_EQ(progress.tokens_per_second, 250);
  EXPECT_DOUBLE_EQ(progress.eta_seconds, 99 * 2);
}

TEST(StepRate, LaterStepsWeighATenth) {
  StepRate rate;
  Progress progress = Step(1, 500, 2);
  rate.Apply(progress);
  progress = Step(2, 1500, 4);
  rate.Apply(progress);
  EXPECT_DOUBLE_EQ(progress.tokens_per_second, 600 / 2.2);
  EXPECT_DOUBLE_EQ(progress.eta_seconds, 98 * 2.2);
}

TEST(StepRate, NothingIsLeftAtTheEnd) {
  StepRate rate;
  Progress progress = Step(100, 500, 2);
  rate.Apply(progress);
  EXPECT_EQ(progress.eta_seconds, 0);
  progress = Step(101, 500, 2);
  rate.Apply(progress);
  EXPECT_EQ(progress.eta_seconds, 0);
}

TEST(StepRate, AStepWithoutTimeHasNoRate) {
  StepRate rate;
  Progress progress = Step(1, 500, 0);
  rate.Apply(progress);
  EXPECT_EQ(progress.tokens_per_second, 0);
}

}  // namespace
}  // namespace mpsd::jobs
