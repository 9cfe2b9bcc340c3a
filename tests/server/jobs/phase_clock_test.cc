// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "core/report/stage_names.h"
#include "server/jobs/meters.h"

namespace mpsd::jobs {
namespace {

absl::Duration Second(double seconds) { return absl::Seconds(seconds); }

report::Progress Step(double seconds, std::optional<double> data_wait) {
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
  clock.Stepped(Step(10, 2), Second(135));
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

TEST(PhaseClock, WhatGoesOnCountsBeforeItIsReported) {
  PhaseClock clock(Second(100));
  EXPECT_EQ(SpentAt(clock, Second(107)), (Seconds{{Phase::kLoad, 7}}));
  clock.Staged(report::kStageTraining, Second(110));
  EXPECT_EQ(SpentAt(clock, Second(700)),
            (Seconds{{Phase::kLoad, 10}, {Phase::kTrain, 590}}));
  clock.Staged(report::kStageEvaluating, Second(700));
  EXPECT_EQ(SpentAt(clock, Second(4300)), (Seconds{{Phase::kLoad, 10},
                                                   {Phase::kTrain, 590},
                                                   {Phase::kEvaluate, 3600}}));
}

TEST(PhaseClock, APauseInterruptsThePhaseThatGoesOn) {
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
  clock.Stepped(Step(5, 1), Second(120));
  clock.Saved(4, Second(130));
  clock.Evaluated(2, Second(140));
  EXPECT_EQ(SpentAt(clock, Second(140)), (Seconds{{Phase::kLoad, 15},
                                                  {Phase::kTrain, 18},
                                                  {Phase::kDataWait, 1},
                                                  {Phase::kEvaluate, 2},
                                                  {Phase::kSave, 4}}));
}

TEST(PhaseClock, NoStageLoadsOnceTheTrainingHasBegun) {
  PhaseClock clock(Second(100));
  clock.Staged(report::kStageTraining, Second(100));
  clock.Staged("counting sheep", Second(101));
  EXPECT_EQ(SpentAt(clock, Second(110)), (Seconds{{Phase::kTrain, 10}}));
}

// Reports wait in the socket while the store is slow.
TEST(PhaseClock, StepsThatArriveTogetherShareTheirTime) {
  PhaseClock clock(Second(100));
  clock.Staged(report::kStageTraining, Second(100));
  clock.Stepped(Step(5, 4), Second(110));
  clock.Stepped(Step(5, 4), Second(110));
  clock.Stepped(Step(5, 0), Second(115));
  EXPECT_EQ(SpentAt(clock, Second(115)),
            (Seconds{{Phase::kTrain, 7}, {Phase::kDataWait, 8}}));
}

TEST(PhaseClock, NoSecondsAreBelievedThatDidNotPass) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (double wrong : {1e300, infinity, -infinity, -1.0,
                       std::numeric_limits<double>::quiet_NaN()}) {
    PhaseClock clock(Second(100));
    clock.Stepped(Step(wrong, wrong), Second(101));
    clock.Stepped(Step(1, wrong), Second(102));
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

}  // namespace
}  // namespace mpsd::jobs
