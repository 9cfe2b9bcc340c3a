// SPDX-License-Identifier: Apache-2.0
#include "server/planner/plan_run.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "absl/synchronization/notification.h"

namespace mpsd::planner {
namespace {

TEST(PlanRun, TellsStagesThenThePlan) {
  std::atomic<int> woken = 0;
  PlanRun run("id", "ada", [&] { ++woken; });
  EXPECT_FALSE(run.Next()->has_value());
  run.Start([](PlanRun& own) -> absl::StatusOr<jobs::FinishedPlan> {
    own.TellStage("one");
    own.TellStage("two");
    return jobs::FinishedPlan{"{}", {}};
  });
  run.Join();
  EXPECT_TRUE(run.ended());
  EXPECT_EQ(woken, 3);
  EXPECT_EQ((*run.Next())->stage, "one");
  EXPECT_EQ((*run.Next())->stage, "two");
  EXPECT_EQ((*run.Next())->plan->json, "{}");
  EXPECT_FALSE(run.Next()->has_value());
}

TEST(PlanRun, TheErrorComesBehindTheStages) {
  PlanRun run("id", "ada", [] {});
  run.Start([](PlanRun& own) -> absl::StatusOr<jobs::FinishedPlan> {
    own.TellStage("one");
    return absl::DataLossError("gone");
  });
  run.Join();
  EXPECT_EQ((*run.Next())->stage, "one");
  EXPECT_EQ(run.Next().status(), absl::DataLossError("gone"));
}

TEST(PlanRun, ASlowWatcherMissesStagesAndNotThePlan) {
  PlanRun run("id", "ada", [] {});
  run.Start([](PlanRun& own) -> absl::StatusOr<jobs::FinishedPlan> {
    for (int i = 0; i < 100'000; ++i) own.TellStage(std::to_string(i));
    return jobs::FinishedPlan{"{}", {}};
  });
  run.Join();
  int stages = 0;
  for (; !(*run.Next())->plan.has_value(); ++stages) {
  }
  EXPECT_LE(stages, 32);
  EXPECT_GT(stages, 0);
}

TEST(PlanRun, HearsThatNobodyWaits) {
  std::atomic<int> woken = 0;
  PlanRun run("id", "ada", [&] { ++woken; });
  EXPECT_TRUE(run.Wanted().ok());
  absl::Notification begun, go;
  run.Start([&](PlanRun& own) -> absl::StatusOr<jobs::FinishedPlan> {
    begun.Notify();
    go.WaitForNotification();
    return own.Wanted();
  });
  begun.WaitForNotification();
  EXPECT_FALSE(run.ended());
  run.GiveUp();
  go.Notify();
  run.Join();
  EXPECT_TRUE(absl::IsCancelled(run.Next().status()));
  EXPECT_EQ(woken, 0) << "nobody is there to be woken";
}

}  // namespace
}  // namespace mpsd::planner
