// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "server/jobs/meters.h"

namespace mpsd::jobs {
namespace {

Progress Step(int64_t step, int64_t tokens, double seconds) {
  Progress progress;
  progress.step = step;
  progress.total_steps = 100;
  progress.tokens = tokens;
  progress.seconds = seconds;
  return progress;
}

TEST(StepRate, SharesOfPaddingAndWaiting) {
  StepRate rate;
  Progress progress = Step(1, 60, 2);
  rate.Apply(progress);
  EXPECT_FALSE(progress.padding_ratio.has_value());
  EXPECT_FALSE(progress.data_wait_ratio.has_value());
  progress.padded_tokens = 80;
  progress.data_wait_seconds = 0.5;
  rate.Apply(progress);
  EXPECT_EQ(progress.padding_ratio, 0.25);
  EXPECT_EQ(progress.data_wait_ratio, 0.25);
  Progress without = Step(2, 0, 0);
  without.padded_tokens = 0;
  without.data_wait_seconds = 0;
  rate.Apply(without);
  EXPECT_FALSE(without.padding_ratio.has_value());
  EXPECT_FALSE(without.data_wait_ratio.has_value());
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

TEST(TimeLeft, IsUnknownBeforeTheFirstStep) {
  EXPECT_EQ(TimeLeft(Job()), std::nullopt);
}

// Another attempt goes on from the checkpoint, not from the last step.
TEST(TimeLeft, CountsFromTheLastCheckpoint) {
  StepRate rate;
  Job job;
  job.progress = Step(60, 500, 2);
  rate.Apply(*job.progress);
  EXPECT_EQ(TimeLeft(job), absl::Seconds(200));
  job.durable_step = 50;
  EXPECT_EQ(TimeLeft(job), absl::Seconds(100));
}

TEST(TimeLeft, OfAJobWhoseLastStepsWereNotSaved) {
  StepRate rate;
  Job job;
  job.progress = Step(100, 500, 2);
  rate.Apply(*job.progress);
  job.durable_step = 90;
  EXPECT_EQ(TimeLeft(job), absl::Seconds(20));
  job.durable_step = 110;
  EXPECT_EQ(TimeLeft(job), absl::ZeroDuration());
}

TEST(TimeLeft, IsUnknownWhereTheWorkersTimeIsNone) {
  Job job;
  job.progress = Step(1, 500, std::nan(""));
  StepRate().Apply(*job.progress);
  EXPECT_EQ(TimeLeft(job), std::nullopt);
  job.progress = Step(1, 500, -3);
  StepRate().Apply(*job.progress);
  EXPECT_EQ(TimeLeft(job), absl::ZeroDuration());
}

TEST(StepRate, AStepWithoutTimeHasNoRate) {
  StepRate rate;
  Progress progress = Step(1, 500, 0);
  rate.Apply(progress);
  EXPECT_EQ(progress.tokens_per_second, 0);
}

}  // namespace
}  // namespace mpsd::jobs
