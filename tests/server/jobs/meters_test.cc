// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/meters.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "server/jobs/attempt_end.h"

namespace mpsd::jobs {
namespace {

absl::Duration Second(double seconds) { return absl::Seconds(seconds); }

report::Progress TimedStep(double seconds, std::optional<double> data_wait) {
  report::Progress progress;
  progress.seconds = seconds;
  progress.data_wait_seconds = data_wait;
  return progress;
}

// Seconds by phase; phases without any are left out. The phases of a worker
// that started at 100 s add up to its age.
std::map<Phase, double> SpentAt(const PhaseClock& clock, absl::Duration now) {
  std::map<Phase, double> seconds;
  absl::Duration sum;
  for (const auto& [phase, time] : clock.Spent(now)) {
    EXPECT_GE(time, absl::ZeroDuration()) << Name(phase);
    if (time > absl::ZeroDuration()) seconds[phase] = ToDoubleSeconds(time);
    sum += time;
  }
  EXPECT_EQ(sum, now - Second(100));
  return seconds;
}
using Seconds = std::map<Phase, double>;

TEST(PhaseClock, AWholeRun) {
  PhaseClock clock(Second(100));
  clock.Staged("loading model", Second(101));
  clock.Staged("resuming at step 5", Second(110));
  clock.Staged(report::kStageTraining, Second(120));
  clock.Staged(report::kStageEvaluating, Second(120));
  clock.Evaluated(5, Second(125));
  clock.Stepped(TimedStep(10, 2), Second(135));
  clock.Staged(report::kStageSaving, Second(135));
  clock.Saved(3, Second(138));
  clock.Staged(report::kStagePredicting, Second(138));
  clock.Staged(report::kStageSaving, Second(145));
  EXPECT_EQ(SpentAt(clock, Second(150)), (Seconds{{Phase::kLoad, 20},
                                                  {Phase::kTrain, 8},
                                                  {Phase::kDataWait, 2},
                                                  {Phase::kEvaluate, 12},
                                                  {Phase::kSave, 8}}));
}

TEST(PhaseClock, APauseInterruptsTheRunningPhase) {
  PhaseClock clock(Second(100));
  clock.Staged(report::kStageEvaluating, Second(100));
  clock.Halted(Second(103));
  clock.Halted(Second(104));
  EXPECT_EQ(SpentAt(clock, Second(3703)),
            (Seconds{{Phase::kEvaluate, 3}, {Phase::kPaused, 3600}}));
  clock.Resumed(Second(3703));
  clock.Resumed(Second(3704));
  // The worker's seconds count the pause: those are not believed.
  clock.Evaluated(3610, Second(3710));
  EXPECT_EQ(SpentAt(clock, Second(3710)),
            (Seconds{{Phase::kEvaluate, 10}, {Phase::kPaused, 3600}}));
}

TEST(PhaseClock, ACheckpointEndsALongPause) {
  PhaseClock clock(Second(100));
  clock.Staged(report::kStageTraining, Second(100));
  clock.Halted(Second(110));
  clock.Staged(report::kStageSaving, Second(710));
  clock.Saved(5, Second(715));
  EXPECT_EQ(
      SpentAt(clock, Second(715)),
      (Seconds{{Phase::kTrain, 10}, {Phase::kPaused, 600}, {Phase::kSave, 5}}));
}

// A worker of an earlier release announces neither its training nor what it
// saves.
TEST(PhaseClock, ReportsAloneAreEnough) {
  PhaseClock clock(Second(100));
  clock.Stepped(TimedStep(5, 1), Second(120));
  clock.Saved(4, Second(130));
  clock.Evaluated(2, Second(140));
  EXPECT_EQ(SpentAt(clock, Second(140)), (Seconds{{Phase::kLoad, 15},
                                                  {Phase::kTrain, 18},
                                                  {Phase::kDataWait, 1},
                                                  {Phase::kEvaluate, 2},
                                                  {Phase::kSave, 4}}));
}

// Reports wait in the socket while the store is slow.
TEST(PhaseClock, StepsThatArriveTogetherShareTheirTime) {
  PhaseClock clock(Second(100));
  clock.Staged(report::kStageTraining, Second(100));
  clock.Stepped(TimedStep(5, 4), Second(110));
  clock.Stepped(TimedStep(5, 4), Second(110));
  clock.Stepped(TimedStep(5, 0), Second(115));
  EXPECT_EQ(SpentAt(clock, Second(115)),
            (Seconds{{Phase::kTrain, 7}, {Phase::kDataWait, 8}}));
}

TEST(PhaseClock, NoSecondsAreBelievedThatDidNotPass) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (double wrong : {1e300, infinity, -infinity, -1.0,
                       std::numeric_limits<double>::quiet_NaN()}) {
    PhaseClock clock(Second(100));
    clock.Stepped(TimedStep(wrong, wrong), Second(101));
    clock.Stepped(TimedStep(1, wrong), Second(102));
    clock.Evaluated(wrong, Second(103));
    clock.Saved(wrong, Second(104));
    SpentAt(clock, Second(105));
  }
}

TEST(PhaseClock, APhasesNameIsItsLabel) {
  std::set<std::string> names;
  for (Phase phase : kAllPhases) names.insert(std::string(Name(phase)));
  EXPECT_EQ(names, (std::set<std::string>{"load", "train", "data_wait",
                                          "evaluate", "save", "paused"}));
}

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

TEST(StepRate, LaterStepsWeighATenth) {
  StepRate rate;
  Progress progress = Step(1, 500, 2);
  rate.Apply(progress);
  EXPECT_DOUBLE_EQ(progress.tokens_per_second, 250)
      << "the first is the only one";
  EXPECT_DOUBLE_EQ(progress.eta_seconds, 99 * 2);
  progress = Step(2, 1500, 4);
  rate.Apply(progress);
  EXPECT_DOUBLE_EQ(progress.tokens_per_second, 600 / 2.2);
  EXPECT_DOUBLE_EQ(progress.eta_seconds, 98 * 2.2);
  progress = Step(1, 500, 0);
  StepRate().Apply(progress);
  EXPECT_EQ(progress.tokens_per_second, 0) << "without time there is no rate";
}

// Another attempt resumes from the checkpoint, not from the last step.
TEST(TimeLeft, CountsFromTheLastCheckpoint) {
  const auto left = [](const Progress& progress, int64_t durable_step) {
    Job job;
    job.progress = progress;
    StepRate().Apply(*job.progress);
    job.durable_step = durable_step;
    return TimeLeft(job);
  };
  EXPECT_EQ(left(Step(60, 500, 2), 0), absl::Seconds(200));
  EXPECT_EQ(left(Step(60, 500, 2), 50), absl::Seconds(100));
  EXPECT_EQ(left(Step(100, 500, 2), 90), absl::Seconds(20)) << "not saved";
  EXPECT_EQ(left(Step(100, 500, 2), 110), absl::ZeroDuration());
  EXPECT_EQ(left(Step(1, 500, std::nan("")), 0), std::nullopt);
  EXPECT_EQ(left(Step(1, 500, -3), 0), absl::ZeroDuration());
  EXPECT_EQ(TimeLeft(Job()), std::nullopt) << "before the first step";
}

StartedJob Describe(const spec::TrainSpec& spec) {
  Job job;
  job.id = "J1";
  job.name = "night run";
  job.owner = "ada";
  job.start_time = absl::UnixEpoch() + absl::Seconds(5);
  return DescribeStart(job, spec, absl::UnixEpoch());
}

// The folder's path says where a user keeps things, its name what it is.
TEST(StartedJob, NamesTheModelByItsIdOrElseItsFolder) {
  spec::TrainSpec spec;
  EXPECT_EQ(Describe(spec).model, "");
  spec.model = "/models/tiny";
  EXPECT_EQ(Describe(spec).model, "tiny");
  spec.model += "/";
  EXPECT_EQ(Describe(spec).model, "tiny");
  spec.model_id = "org/tiny";
  EXPECT_EQ(Describe(spec).model, "org/tiny");
}

}  // namespace
}  // namespace mpsd::jobs
