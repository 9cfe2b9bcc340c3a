// SPDX-License-Identifier: Apache-2.0
// Jobs that run again because somebody asks for it: Scheduler::Retry.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/jobs/scheduler.h"
#include "tests/server/jobs/scheduler_share_fixture.h"

namespace mpsd::jobs {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class SchedulerRetryTest : public SchedulerShareFixture {
 protected:
  std::string Message(const absl::StatusOr<Job>& job) {
    return std::string(job.status().message());
  }
  void RunToEnd(const std::string& id, ExitReason reason) {
    scheduler_->Tick();
    ASSERT_EQ(Running(), id);
    launcher_.Exit(reason);
    scheduler_->Tick();
  }
};

TEST_F(SchedulerRetryTest, AnEndedJobRunsAgainFromItsCheckpoint) {
  const std::string id = Submit();
  RunToEnd(id, ExitReason::kRejected);
  ASSERT_EQ(StateOf(id), State::kFailed);
  ASSERT_TRUE(scheduler_->Retry(id, false).ok());
  EXPECT_THAT(files_.removed_runs, IsEmpty());
  scheduler_->Tick();
  EXPECT_EQ(Running(), id);
}

TEST_F(SchedulerRetryTest, ASucceededJobRunsAgainFromScratchAlone) {
  const std::string id = Submit();
  scheduler_->Tick();
  Worker().OnCheckpoint(At(10, "/state/c10"));
  Worker().OnProgress(Step(100));
  launcher_.Exit(ExitReason::kDone);
  scheduler_->Tick();
  const auto refused = scheduler_->Retry(id, false);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused.status()));
  EXPECT_THAT(Message(refused), HasSubstr("is SUCCEEDED"));
  EXPECT_THAT(Message(refused), HasSubstr("--from-scratch"));

  const auto job = scheduler_->Retry(id, true);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->state, State::kQueued);
  EXPECT_EQ(job->output_path, "");
  EXPECT_EQ(job->progress, std::nullopt);
  EXPECT_EQ(job->eval_loss_after, std::nullopt);
  EXPECT_EQ(job->durable_step, 0);
  EXPECT_THAT(files_.removed_runs, ElementsAre(id));
  EXPECT_THAT(*store_.Checkpoints(id), IsEmpty());
  const auto twice = scheduler_->Retry(id, true);
  EXPECT_TRUE(absl::IsFailedPrecondition(twice.status()));
  EXPECT_THAT(Message(twice), HasSubstr("is QUEUED"));
  scheduler_->Tick();
  EXPECT_EQ(Running(), id);
  EXPECT_FALSE(Stored(id).fresh);
  launcher_.Exit(ExitReason::kDone);
  EXPECT_EQ(StateOf(id), State::kSucceeded);
}

// mpsd is killed when the row is stored and nothing is removed yet.
TEST_F(SchedulerRetryTest, WhatAKillLeftIsRemovedBeforeTheStart) {
  const std::string id = Submit();
  scheduler_->Tick();
  Worker().OnCheckpoint(At(10, "/state/c10"));
  launcher_.Exit(ExitReason::kDone);
  scheduler_->Tick();
  files_.on_remove_run = [&] {
    files_.failure = absl::InternalError("killed");
  };
  ASSERT_TRUE(scheduler_->Retry(id, true).ok());
  files_.on_remove_run = nullptr;
  files_.failure = absl::OkStatus();
  KillAndRestart();
  EXPECT_THAT(*store_.Checkpoints(id), testing::SizeIs(1));
  scheduler_->Tick();
  EXPECT_EQ(Running(), id);
  EXPECT_THAT(files_.removed_runs, ElementsAre(id));
  EXPECT_THAT(*store_.Checkpoints(id), IsEmpty());
  EXPECT_EQ(Stored(id).durable_step, 0);
}

TEST_F(SchedulerRetryTest, AJobWhoseLeftoversStayWaitsForThatAlone) {
  const std::string id = Submit();
  RunToEnd(id, ExitReason::kDone);
  files_.failure = absl::PermissionDeniedError("not yours");
  ASSERT_TRUE(scheduler_->Retry(id, true).ok());
  scheduler_->Tick();
  EXPECT_EQ(Running(), "");
  EXPECT_THAT(board_->HoldOf(id), HasSubstr("cannot be removed: not yours"));
  files_.failure = absl::OkStatus();
  clock_.Advance(absl::Seconds(10));
  scheduler_->Tick();
  EXPECT_EQ(Running(), id);
}

TEST_F(SchedulerRetryTest, ARunningJobReturnsToTheQueueAndGoesOn) {
  const std::string first = Submit(), second = Submit();
  scheduler_->Tick();
  ASSERT_TRUE(scheduler_->Retry(first, false).ok());
  ASSERT_TRUE(scheduler_->Retry(first, false).ok());
  EXPECT_EQ(launcher_.preempted, 1);
  launcher_.Exit(ExitReason::kPreempted, "at a checkpoint");
  EXPECT_EQ(StateOf(first), State::kQueued);
  EXPECT_THAT(Stored(first).message, HasSubstr("as was asked"));
  scheduler_->Tick();
  EXPECT_EQ(Running(), first);
  EXPECT_THAT(files_.removed_runs, IsEmpty());
}

TEST_F(SchedulerRetryTest, ARunningJobBeginsFromScratchHoweverItEnds) {
  for (const ExitReason reason :
       {ExitReason::kPreempted, ExitReason::kDone, ExitReason::kCrashed,
        ExitReason::kRejected, ExitReason::kMachine}) {
    SCOPED_TRACE(std::string(Name(reason)));
    const std::string id = Submit();
    scheduler_->Tick();
    ASSERT_EQ(Running(), id);
    Worker().OnCheckpoint(At(10, absl::StrCat("/state/", id)));
    Worker().OnProgress(Step(12));
    ASSERT_TRUE(scheduler_->Retry(id, true).ok());
    launcher_.Exit(reason);
    EXPECT_EQ(StateOf(id), State::kQueued);
    EXPECT_EQ(Stored(id).progress, std::nullopt);
    EXPECT_EQ(Stored(id).output_path, "");
    clock_.Advance(absl::Minutes(2));
    scheduler_->Tick();
    EXPECT_EQ(Running(), id);
    EXPECT_EQ(files_.removed_runs.back(), id);
    EXPECT_THAT(*store_.Checkpoints(id), IsEmpty());
    launcher_.Exit(ExitReason::kDone);
    EXPECT_EQ(StateOf(id), State::kSucceeded);
    scheduler_->Tick();
  }
}

TEST_F(SchedulerRetryTest, TheWishToBeginAnewOutlivesTheDaemon) {
  const std::string id = Submit();
  scheduler_->Tick();
  Worker().OnCheckpoint(At(10, "/state/c10"));
  ASSERT_TRUE(scheduler_->Retry(id, true).ok());
  KillAndRestart();
  EXPECT_EQ(StateOf(id), State::kQueued);
  scheduler_->Tick();
  EXPECT_EQ(Running(), id);
  EXPECT_THAT(files_.removed_runs, ElementsAre(id));
}

TEST_F(SchedulerRetryTest, ARetryThatComesDuringTheLaunchIsHeard) {
  const std::string id = Submit();
  launcher_.within_launch = [&] {
    EXPECT_TRUE(scheduler_->Retry(id, false).ok());
  };
  scheduler_->Tick();
  EXPECT_EQ(launcher_.preempted, 1);
}

TEST_F(SchedulerRetryTest, ACancelledJobIsNotRetriedBeforeItsEnd) {
  const std::string id = Submit();
  scheduler_->Tick();
  ASSERT_TRUE(scheduler_->Retry(id, true).ok());
  ASSERT_TRUE(scheduler_->Cancel(id).ok());
  EXPECT_TRUE(
      absl::IsFailedPrecondition(scheduler_->Retry(id, false).status()));
  launcher_.Exit(ExitReason::kCancelled);
  EXPECT_EQ(StateOf(id), State::kCancelled) << "the later word counts";
}

TEST_F(SchedulerRetryTest, NothingGoesThatIsPinnedOrNeeded) {
  const std::string id = Submit();
  RunToEnd(id, ExitReason::kDone);
  files_.paths.insert(absl::StrCat("/state/jobs/", id, "/out/adapter"));
  SubmitRequest request = Request();
  request.spec_json = absl::StrCat(
      R"({"model": "org/tiny", "dataset": {"train": "/data/train.jsonl"}, )",
      R"("adapter": "/state/jobs/)", id, R"(/out/adapter"})");
  const auto user = scheduler_->Submit(request);
  ASSERT_TRUE(user.ok()) << user.status();
  const auto needed = scheduler_->Retry(id, true);
  EXPECT_TRUE(absl::IsFailedPrecondition(needed.status()));
  EXPECT_THAT(Message(needed), HasSubstr(user->job.id));
  ASSERT_TRUE(scheduler_->Cancel(user->job.id).ok());
  Job pinned = Stored(id);
  pinned.pinned = true;
  ASSERT_TRUE(store_.Update(pinned, {}).ok());
  const auto refused = scheduler_->Retry(id, true);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused.status()));
  EXPECT_THAT(Message(refused), HasSubstr("mpsctl unpin"));
  EXPECT_THAT(files_.removed_runs, IsEmpty());
}

TEST_F(SchedulerRetryTest, ARetryKeepsToTheLimits) {
  const std::string id = Submit();
  RunToEnd(id, ExitReason::kDone);
  UserLimits limits;
  limits.queued_jobs = 0;
  EXPECT_TRUE(
      absl::IsResourceExhausted(scheduler_->Retry(id, true, limits).status()));
  EXPECT_EQ(StateOf(id), State::kSucceeded);
  EXPECT_THAT(files_.removed_runs, IsEmpty());
}

// The job enters the queue while its files go: it starts only once they have
// gone, and starts once.
TEST_F(SchedulerRetryTest, NothingIsRemovedOfAnAttempt) {
  const std::string id = Submit();
  RunToEnd(id, ExitReason::kDone);
  std::thread start;
  bool removing = false;
  files_.on_remove_run = [&] {
    EXPECT_EQ(Running(), "");
    if (removing) return;
    removing = true;
    EXPECT_TRUE(scheduler_->Hold(id, "by ann").ok());
    EXPECT_TRUE(scheduler_->Release(id).ok());
    start = std::thread([&] { scheduler_->Tick(); });
    absl::SleepFor(absl::Milliseconds(100));
    EXPECT_EQ(Running(), "");
  };
  ASSERT_TRUE(scheduler_->Retry(id, true).ok());
  start.join();
  EXPECT_EQ(Running(), id);
  EXPECT_EQ(launcher_.requests.size(), 2u);
  EXPECT_EQ(board_->QueuePosition(id), std::nullopt);
}

}  // namespace
}  // namespace mpsd::jobs
