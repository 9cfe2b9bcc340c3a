// SPDX-License-Identifier: Apache-2.0
#include "core/study/profiled_steps.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

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

// The kinds of a plan's steps: w, p, or x under the profiler; "|" ends a
// session.
std::string Drawn(ProfilePlan plan) {
  std::string drawn;
  while (const auto kind = plan.Next()) {
    plan.Taken();
    drawn += *kind == StepKind::kWarmUp  ? 'w'
             : *kind == StepKind::kPlain ? 'p'
                                         : 'x';
    if (*kind == StepKind::kProfiled && plan.EndsSession()) drawn += '|';
  }
  return drawn;
}

int64_t Steps(const std::string& drawn) {
  return static_cast<int64_t>(drawn.size()) -
         std::count(drawn.begin(), drawn.end(), '|');
}

TEST(ProfilePlanTest, PlainStepsComeBeforeEachSession) {
  EXPECT_EQ(Drawn({3, 7}), "wwwppxxxxx|ppxx|");
  EXPECT_EQ(Drawn({1, 1}), "wppx|");
  EXPECT_EQ(Drawn({1, 5}), "wppxxxxx|");
}

TEST(ProfilePlanTest, TheTotalIsKnownFromTheStart) {
  for (const int64_t profiled : {1, 4, 5, 6, 10, 11, 50}) {
    ProfilePlan plan(10, profiled);
    const int64_t total = Steps(Drawn(plan));
    for (int64_t i = 0; i < total; ++i) {
      EXPECT_EQ(plan.total(), total) << profiled << " at " << i;
      plan.Taken();
    }
    EXPECT_EQ(plan.total(), total);
    EXPECT_EQ(plan.Next(), std::nullopt);
  }
}

TEST(ProfilePlanTest, ManyEventsMakeShortSessions) {
  ProfilePlan plan(1, 20);
  for (int i = 0; i < 8; ++i) plan.Taken();
  ASSERT_TRUE(plan.EndsSession());
  plan.Note(5 * ProfilePlan::kSessionEvents / 2, 5);
  EXPECT_EQ(Drawn(plan), "ppxx|ppxx|ppxx|ppxx|ppxx|ppxx|ppxx|ppx|");
  EXPECT_EQ(plan.total(), 8 + Steps(Drawn(plan)));
  plan.Note(100 * ProfilePlan::kSessionEvents, 1);
  EXPECT_THAT(Drawn(plan), testing::StartsWith("ppx|ppx|"));
}

}  // namespace
}  // namespace mpsd::study
