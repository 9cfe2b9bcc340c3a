// SPDX-License-Identifier: Apache-2.0
// The jobs of sweeps (scheduler_sweep.cc).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/jobs/scheduler.h"
#include "tests/server/jobs/scheduler_fixture.h"

namespace mpsd::jobs {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class SchedulerSweepTest : public SchedulerFixture {
 protected:
  absl::StatusOr<std::vector<Job>> Make(int count, int64_t until_step,
                                        SubmitRequest request = Request()) {
    std::vector<ChildRequest> children(count, {std::move(request), "child"});
    return scheduler_->SubmitChildren(
        children, "SWEEP", until_step,
        [&](absl::Span<const Job> jobs, absl::Span<const Event> events) {
          for (size_t i = 0; i < jobs.size(); ++i) {
            absl::Status inserted = store_.Insert(jobs[i], events[i]);
            if (!inserted.ok()) return inserted;
          }
          return absl::OkStatus();
        });
  }
  // A child that rests at step 4.
  std::string Resting() {
    const auto jobs = Make(1, 4);
    EXPECT_TRUE(jobs.ok()) << jobs.status();
    scheduler_->Tick();
    Worker().OnProgress(Step(4));
    Worker().OnCheckpoint(At(4, "/out/step-4"));
    launcher_.Exit(ExitReason::kPreempted, "reached step 4");
    scheduler_->Tick();
    return jobs->front().id;
  }
};

TEST_F(SchedulerSweepTest, ChildrenAreJobsInOrder) {
  const auto jobs = Make(3, 4);
  ASSERT_TRUE(jobs.ok()) << jobs.status();
  for (size_t i = 0; i < 3; ++i) {
    const Job job = Stored((*jobs)[i].id);
    EXPECT_EQ(job.sweep_id, "SWEEP");
    EXPECT_EQ(job.until_step, 4);
    EXPECT_EQ(board_->QueuePosition(job.id), static_cast<int32_t>(i));
    EXPECT_THAT(History(job.id), testing::ElementsAre(State::kQueued));
  }
  scheduler_->Tick();
  EXPECT_EQ(Running(), jobs->front().id);
  EXPECT_EQ(launcher_.requests.back().until_step, 4);
}

TEST_F(SchedulerSweepTest, WhoRestsLetsOthersByAcrossARestart) {
  const std::string id = Resting();
  EXPECT_EQ(StateOf(id), State::kQueued);
  EXPECT_EQ(Stored(id).interruptions, 0);
  EXPECT_EQ(Stored(id).failures, 0);
  EXPECT_THAT(board_->HoldOf(id), HasSubstr("waits for its rung"));
  const std::string other = Submit();
  scheduler_->Tick();
  EXPECT_EQ(Running(), other);
  KillAndRestart();
  EXPECT_THAT(board_->HoldOf(id), HasSubstr("waits for its rung"));
}

TEST_F(SchedulerSweepTest, SendOnLetsItGo) {
  const std::string id = Resting();
  ASSERT_TRUE(scheduler_->SendOn(id, 8).ok());
  EXPECT_EQ(board_->HoldOf(id), "");
  scheduler_->Tick();
  EXPECT_EQ(Running(), id);
  EXPECT_EQ(launcher_.requests.back().until_step, 8);
  EXPECT_TRUE(absl::IsFailedPrecondition(scheduler_->SendOn(id, 9).status()))
      << "it runs";
  EXPECT_TRUE(absl::IsNotFound(scheduler_->SendOn("nobody", 9).status()));
}

TEST_F(SchedulerSweepTest, SendOnKeepsAHoldAndAWait) {
  const std::string id = Resting();
  ASSERT_TRUE(scheduler_->Hold(id, "mine").ok());
  ASSERT_TRUE(scheduler_->SendOn(id, 0).ok());
  scheduler_->Tick();
  EXPECT_EQ(Running(), "");
  EXPECT_EQ(board_->HoldOf(id), "mine");
}

TEST_F(SchedulerSweepTest, DropEndsItAndARetryRunsItToItsEnd) {
  const std::string id = Resting();
  const auto dropped = scheduler_->Drop(id, "place 5 of 9");
  ASSERT_TRUE(dropped.ok()) << dropped.status();
  EXPECT_EQ(StateOf(id), State::kCancelled);
  EXPECT_EQ(Stored(id).message, "place 5 of 9");
  EXPECT_EQ(board_->HoldOf(id), "");
  EXPECT_TRUE(absl::IsFailedPrecondition(scheduler_->Drop(id, "").status()));
  ASSERT_TRUE(scheduler_->Retry(id).ok());
  scheduler_->Tick();
  EXPECT_EQ(Running(), id);
  EXPECT_EQ(launcher_.requests.back().until_step, 0);
}

// The checkpoint was written while no daemon listened: the attempt that tells
// of it takes no step.
TEST_F(SchedulerSweepTest, ACheckpointOfAnEarlierAttemptCounts) {
  const auto jobs = Make(1, 4);
  ASSERT_TRUE(jobs.ok());
  scheduler_->Tick();
  KillAndRestart();
  clock_.Advance(absl::Minutes(2));
  scheduler_->Tick();
  Worker().OnEvaluated({4, 0.5, 0, 0, {}, false});
  Worker().OnCheckpoint(At(4, "/out/step-4"));
  launcher_.Exit(ExitReason::kPreempted);
  scheduler_->Tick();
  EXPECT_EQ(Running(), "");
  EXPECT_EQ(Stored(jobs->front().id).eval_loss_after, 0.5);
}

TEST_F(SchedulerSweepTest, ACrashBehindTheCheckpointRestsToo) {
  const auto jobs = Make(1, 4);
  ASSERT_TRUE(jobs.ok());
  scheduler_->Tick();
  Worker().OnCheckpoint(At(4, "/out/step-4"));
  launcher_.Exit(ExitReason::kCrashed);
  clock_.Advance(absl::Minutes(2));
  scheduler_->Tick();
  EXPECT_EQ(Running(), "");
  EXPECT_THAT(board_->HoldOf(jobs->front().id), HasSubstr("its rung"));
}

// Nobody looks at a sweep that was cancelled: its child would rest for ever.
TEST_F(SchedulerSweepTest, WhoIsQueuedAgainAtItsRungTellsItsSweep) {
  const std::string id = Resting();
  ASSERT_TRUE(scheduler_->Cancel(id).ok());
  const int before = sweep_changes_;
  ASSERT_TRUE(scheduler_->Retry(id, /*from_scratch=*/false).ok());
  EXPECT_THAT(board_->HoldOf(id), HasSubstr("waits for its rung"));
  EXPECT_GT(sweep_changes_, before);
}

TEST_F(SchedulerSweepTest, FromScratchIsFromScratch) {
  const std::string id = Resting();
  ASSERT_TRUE(scheduler_->Cancel(id).ok());
  ASSERT_TRUE(scheduler_->Retry(id, /*from_scratch=*/true).ok());
  scheduler_->Tick();
  EXPECT_EQ(Running(), id);
  EXPECT_EQ(launcher_.requests.back().until_step, 4);
}

TEST_F(SchedulerSweepTest, AllOrNothing) {
  SubmitRequest bad = Request();
  bad.spec_json = "{}";
  const auto refused = Make(2, 0, bad);
  EXPECT_TRUE(absl::IsInvalidArgument(refused.status()));
  EXPECT_THAT(std::string(refused.status().message()),
              testing::StartsWith("child: "));
  EXPECT_THAT(*store_.Ids(), IsEmpty());
  SubmitRequest limited = Request();
  limited.limits.queued_jobs = 2;
  EXPECT_TRUE(absl::IsResourceExhausted(Make(3, 0, limited).status()));
  EXPECT_THAT(files_.specs, IsEmpty());
  store_.FailWith(absl::ResourceExhaustedError("disk full"));
  EXPECT_TRUE(absl::IsResourceExhausted(Make(3, 0).status()));
  EXPECT_THAT(files_.specs, IsEmpty());
  scheduler_->Drain();
  EXPECT_TRUE(absl::IsUnavailable(Make(1, 0).status()));
}

}  // namespace
}  // namespace mpsd::jobs
