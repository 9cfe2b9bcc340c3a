// SPDX-License-Identifier: Apache-2.0
#include "core/study/profiled_steps.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "core/profile/block_mark.h"
#include "tests/core/job_folder.h"

namespace mpsd::study {
namespace {

using testing_support::RecordingObserver;
using train::StopRequest;

// What train::Loop does: asks between steps, and once within a step.
int64_t Train(ProfiledSteps& steps, int64_t most = 100) {
  for (int64_t step = 1; step <= most; ++step) {
    if (steps.stop_request() != StopRequest::kNone) return step - 1;
    const profile::BlockMark mark("mpsd::step");
    at::ones({8}).add_(1);
    if (steps.stop_request() != StopRequest::kNone) return step - 1;
    report::Progress progress;
    progress.step = step;
    progress.seconds = 1;
    steps.OnStep(progress);
  }
  return most;
}

TEST(ProfiledStepsTest, TakesThePlansStepsAndStops) {
  RecordingObserver observer;
  ProfiledSteps steps({2, 7}, observer);
  // Trials of micro-batches come before: no steps.
  EXPECT_EQ(steps.stop_request(), StopRequest::kNone);
  steps.Begin();
  EXPECT_EQ(Train(steps), 2 + 2 + 5 + 2 + 2);
  EXPECT_TRUE(steps.complete());
  EXPECT_EQ(steps.stop_request(), StopRequest::kCancel);
  ProfileFacts facts;
  const auto folder = testing_support::FreshFolder("profiled_steps");
  steps.Finish(folder, facts);
  EXPECT_EQ(facts.steps.size(), 13u);
  EXPECT_EQ(facts.tally.steps, 7);
  EXPECT_EQ(facts.tally.operators.at("aten::ones").calls, 7);
  ASSERT_TRUE(facts.trace.has_value());
  EXPECT_EQ(facts.trace->steps, 2);
  EXPECT_TRUE(std::filesystem::exists(folder / facts.trace->name));
  EXPECT_EQ(observer.steps.front().total_steps, 13);
}

TEST(ProfiledStepsTest, AStopOfTheObserverEndsItAtOnce) {
  RecordingObserver observer;
  observer.stop_after = 6;
  ProfiledSteps steps({2, 7}, observer);
  steps.Begin();
  EXPECT_EQ(Train(steps), 6);
  EXPECT_FALSE(steps.complete());
  // For kPreempt the run would save a checkpoint.
  EXPECT_EQ(steps.stop_request(), StopRequest::kCancel);
}

TEST(ProfiledStepsTest, WhyThereIsNoTraceIsSaid) {
  RecordingObserver observer;
  ProfiledSteps steps({1, 1}, observer);
  steps.Begin();
  Train(steps);
  const auto folder = testing_support::FreshFolder("profiled_steps_none");
  std::ofstream(folder / "file") << "no folder";
  ProfileFacts facts;
  steps.Finish(folder / "file", facts);
  EXPECT_FALSE(facts.trace.has_value());
  ASSERT_EQ(facts.not_told.size(), 1u);
  EXPECT_EQ(facts.not_told[0].find("there is no trace: "), 0u);
}

TEST(ProfiledStepsTest, WarningsGoOn) {
  RecordingObserver observer;
  ProfiledSteps steps({1, 1}, observer);
  steps.OnWarning("hot");
  EXPECT_EQ(observer.warnings(), std::vector<std::string>{"hot"});
}

}  // namespace
}  // namespace mpsd::study
