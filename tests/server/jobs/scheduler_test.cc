// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "absl/synchronization/notification.h"
#include "tests/server/jobs/scheduler_fixture.h"

namespace mpsd::jobs {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class SchedulerTest : public SchedulerFixture {};

TEST_F(SchedulerTest, SubmitAnswersWithADurableJob) {
  SubmitRequest request = Request();
  request.owner = "ann";
  request.labels = {{"team", "nlp"}};
  request.priority = 3;
  auto result = scheduler_->Submit(request);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(result->existed);
  const Job job = Stored(result->job.id);
  EXPECT_EQ(job.state, State::kQueued);
  EXPECT_EQ(job.owner, "ann");
  EXPECT_EQ(job.labels.at("team"), "nlp");
  EXPECT_EQ(job.priority, 3);
  EXPECT_EQ(job.create_time, clock_.Now());
  EXPECT_THAT(job.spec_json, HasSubstr("/models/tiny"));
  EXPECT_EQ(files_.specs.at(job.id), job.spec_json);
  EXPECT_EQ(changes_, 1);
  EXPECT_EQ(exported_metrics_.counts.at(State::kQueued), 1);
  EXPECT_THAT(History(job.id), ElementsAre(State::kQueued));
}

TEST_F(SchedulerTest, ABadRequestLeavesNoTrace) {
  SubmitRequest request = Request();
  request.spec_json = "{}";
  EXPECT_TRUE(absl::IsInvalidArgument(scheduler_->Submit(request).status()));
  EXPECT_THAT(files_.specs, IsEmpty());
  EXPECT_EQ(changes_, 0);
}

TEST_F(SchedulerTest, WhatIsNotStoredIsNotSubmitted) {
  store_.FailWith(absl::ResourceExhaustedError("disk full"));
  EXPECT_TRUE(
      absl::IsResourceExhausted(scheduler_->Submit(Request()).status()));
  EXPECT_THAT(files_.specs, IsEmpty());
  store_.FailWith(absl::OkStatus());
  files_.failure = absl::PermissionDeniedError("jobs/");
  EXPECT_TRUE(absl::IsPermissionDenied(scheduler_->Submit(Request()).status()));
  EXPECT_THAT(*board_->List({}), IsEmpty());
  scheduler_->Tick();
  EXPECT_THAT(launcher_.requests, IsEmpty());
}

TEST_F(SchedulerTest, TheSameKeyAndRequestIsTheSameJob) {
  SubmitRequest request = Request();
  request.idempotency_key = "key";
  const std::string id = scheduler_->Submit(request)->job.id;
  auto again = scheduler_->Submit(request);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(again->existed);
  EXPECT_EQ(again->job.id, id);
  EXPECT_EQ(board_->List({})->size(), 1);
}

TEST_F(SchedulerTest, TheSameKeyWithAnotherRequestIsAnError) {
  SubmitRequest request = Request();
  request.idempotency_key = "key";
  const std::string id = scheduler_->Submit(request)->job.id;
  request.priority = 1;
  const absl::Status status = scheduler_->Submit(request).status();
  EXPECT_TRUE(absl::IsAlreadyExists(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(id));
}

TEST_F(SchedulerTest, AKeyIsItsOwners) {
  SubmitRequest request = Request();
  request.owner = "ada";
  request.idempotency_key = "key";
  const std::string id = scheduler_->Submit(request)->job.id;
  request.owner = "bob";
  request.priority = 1;
  auto other = scheduler_->Submit(request);
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_FALSE(other->existed);
  EXPECT_NE(other->job.id, id);
  EXPECT_EQ(other->job.owner, "bob");
}

TEST_F(SchedulerTest, AKeyOutlivesTheModelItNeeded) {
  SubmitRequest request = Request();
  request.idempotency_key = "key";
  const std::string id = scheduler_->Submit(request)->job.id;
  files_.models.clear();
  EXPECT_EQ(scheduler_->Submit(request)->job.id, id);
}

TEST_F(SchedulerTest, CancellingAQueuedJobEndsIt) {
  const std::string first = Submit(), second = Submit();
  auto job = scheduler_->Cancel(first);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->state, State::kCancelled);
  EXPECT_EQ(job->end_time, clock_.Now());
  EXPECT_THAT(History(first), ElementsAre(State::kQueued, State::kCancelled));
  EXPECT_EQ(board_->QueuePosition(first), std::nullopt);
  EXPECT_EQ(board_->QueuePosition(second), 0);
  EXPECT_THAT(exported_metrics_.ended, ElementsAre(first));
  EXPECT_THAT(exported_metrics_.end_states, ElementsAre(State::kCancelled));
  scheduler_->Tick();
  EXPECT_EQ(Running(), second);
}

TEST_F(SchedulerTest, TellsWhoWaitsAndSinceWhen) {
  const absl::Time since = clock_.Now();
  SubmitRequest request = Request();
  request.owner = "ada";
  const std::string first = scheduler_->Submit(request)->job.id;
  clock_.Advance(absl::Seconds(1));
  Submit(/*priority=*/5);
  const QueueDepth& queue = exported_metrics_.queue;
  EXPECT_EQ(queue.by_priority, (std::map<int32_t, int64_t>{{0, 1}, {5, 1}}));
  EXPECT_EQ(queue.by_owner,
            (std::map<std::string, int64_t>{{"", 1}, {"ada", 1}}));
  EXPECT_EQ(queue.oldest, since);
  ASSERT_TRUE(scheduler_->Cancel(first).ok());
  EXPECT_EQ(queue.oldest, since + absl::Seconds(1));
  scheduler_->Tick();
  EXPECT_TRUE(queue.by_owner.empty());
  EXPECT_EQ(queue.oldest, std::nullopt);
}

TEST_F(SchedulerTest, CancellingAgainChangesNothing) {
  const std::string id = Submit();
  const Job first = *scheduler_->Cancel(id);
  clock_.Advance(absl::Seconds(1));
  auto again = scheduler_->Cancel(id);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->end_time, first.end_time);
  EXPECT_EQ(History(id).size(), 2);
}

TEST_F(SchedulerTest, WhatIsNotThereIsNotFound) {
  EXPECT_TRUE(absl::IsNotFound(board_->Get("X").status()));
  EXPECT_TRUE(absl::IsNotFound(scheduler_->Cancel("X").status()));
  EXPECT_TRUE(absl::IsNotFound(board_->Events("X", 0).status()));
  EXPECT_TRUE(absl::IsNotFound(board_->Checkpoints("X").status()));
  EXPECT_EQ(board_->LogPath("../../etc"), "");
  EXPECT_EQ(board_->JobFolder("../../etc"), "");
}

TEST_F(SchedulerTest, EventsContinueBehindASequence) {
  const std::string id = Submit();
  scheduler_->Tick();
  ASSERT_EQ(board_->Events(id, 0)->size(), 2);
  ASSERT_EQ(board_->Events(id, 1)->size(), 1);
  EXPECT_EQ(board_->Events(id, 1)->front().sequence, 2);
  EXPECT_THAT(*board_->Events(id, 2), IsEmpty());
}

TEST_F(SchedulerTest, PathsLieInTheStateFolder) {
  const std::string id = Submit();
  EXPECT_EQ(board_->JobFolder(id), "/state/jobs/" + id);
  EXPECT_EQ(board_->LogPath(id), "/state/jobs/" + id + "/log");
}

TEST_F(SchedulerTest, ACancelIsAnsweredOnceItIsStored) {
  const std::string id = Submit();
  scheduler_->Tick();
  store_.FailWith(absl::ResourceExhaustedError("disk full"));
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = scheduler_->Cancel(id).status();
    EXPECT_TRUE(absl::IsAborted(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("disk full"), HasSubstr("once more")));
    EXPECT_EQ(launcher_.cancelled, 1) << "its worker was asked nonetheless";
  }
  EXPECT_FALSE(Stored(id).cancel_requested);
  store_.FailWith(absl::OkStatus());
  EXPECT_TRUE(scheduler_->Cancel(id).ok());
  EXPECT_TRUE(Stored(id).cancel_requested);
  EXPECT_EQ(launcher_.cancelled, 1);
  launcher_.listener = nullptr;
  Restart();
  ASSERT_TRUE(scheduler_->Recover().ok());
  EXPECT_EQ(StateOf(id), State::kCancelled);
}

TEST_F(SchedulerTest, ACancelForNowIsToldAgain) {
  const std::string id = Submit();
  scheduler_->Tick();
  ASSERT_TRUE(scheduler_->Cancel(id).ok());
  EXPECT_EQ(launcher_.grace, absl::Minutes(2));
  ASSERT_TRUE(scheduler_->Cancel(id, /*now=*/true).ok());
  EXPECT_EQ(launcher_.cancelled, 2);
  EXPECT_EQ(launcher_.grace, absl::ZeroDuration());
}

TEST_F(SchedulerTest, AFailedJobIsTriedAgainFromItsCheckpoints) {
  const std::string first = Submit(), second = Submit();
  for (int wait : {10, 20, 0}) {
    scheduler_->Tick();
    ASSERT_EQ(Running(), first) << "a job that came back keeps its place";
    Worker().OnProgress(Step(1));
    launcher_.Exit(ExitReason::kCrashed, "SIGSEGV");
    clock_.Advance(absl::Seconds(wait));
  }
  ASSERT_EQ(StateOf(first), State::kFailed);
  const auto job = scheduler_->Retry(first);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->state, State::kQueued);
  EXPECT_EQ(job->failures, 0);
  EXPECT_EQ(job->end_time, std::nullopt);
  EXPECT_EQ(exported_metrics_.counts.at(State::kQueued), 2);
  scheduler_->Tick();
  EXPECT_EQ(Running(), first);
  EXPECT_EQ(Stored(first).attempt, 4);
  launcher_.Exit(ExitReason::kDone);
  EXPECT_THAT(History(first),
              ElementsAre(State::kQueued, State::kRunning, State::kQueued,
                          State::kRunning, State::kQueued, State::kRunning,
                          State::kFailed, State::kQueued, State::kRunning,
                          State::kSucceeded));
}

TEST_F(SchedulerTest, ACancelledJobIsTriedAgainAndOthersAreRefused) {
  const std::string id = Submit();
  ASSERT_TRUE(scheduler_->Cancel(id).ok());
  ASSERT_TRUE(scheduler_->Retry(id).ok());
  EXPECT_EQ(board_->QueuePosition(id), 0);
  absl::Status refused = scheduler_->Retry(id).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("is QUEUED"));
  scheduler_->Tick();
  launcher_.Exit(ExitReason::kDone);
  refused = scheduler_->Retry(id).status();
  EXPECT_THAT(std::string(refused.message()), HasSubstr("is SUCCEEDED"));
  EXPECT_TRUE(absl::IsNotFound(scheduler_->Retry("X").status()));
}

TEST_F(SchedulerTest, ARetryThatIsNotStoredIsNone) {
  const std::string id = Submit();
  ASSERT_TRUE(scheduler_->Cancel(id).ok());
  store_.FailWith(absl::ResourceExhaustedError("disk full"));
  EXPECT_TRUE(absl::IsResourceExhausted(scheduler_->Retry(id).status()));
  store_.FailWith(absl::OkStatus());
  EXPECT_EQ(board_->QueuePosition(id), std::nullopt);
  scheduler_->Drain();
  EXPECT_TRUE(absl::IsUnavailable(scheduler_->Retry(id).status()));
}

TEST_F(SchedulerTest, WhatIsAskedIsAnsweredWhileTheStoreHangs) {
  const std::string id = Submit(), other = Submit();
  scheduler_->Tick();
  store_.Stall(true);
  std::thread worker([&] {
    Worker().OnEvaluated({0, 2, 0, 0, {}});
    launcher_.Exit(ExitReason::kPreempted, "stopped at a checkpoint");
  });
  std::thread canceller([&] { EXPECT_TRUE(scheduler_->Cancel(other).ok()); });
  while (store_.stalled() == 0) std::this_thread::yield();
  // None of these comes back if it waits for the store.
  EXPECT_EQ(board_->Info().running_job_id, id);
  EXPECT_EQ(board_->Info().jobs.at(State::kQueued), 1);
  EXPECT_EQ(board_->Get(id)->state, State::kRunning);
  EXPECT_EQ(board_->List({})->size(), 2);
  EXPECT_EQ(board_->QueuePosition(other), 0);
  EXPECT_EQ(board_->PauseOf(id), Pause());
  EXPECT_EQ(board_->HoldOf(other), "");
  scheduler_->Drain();
  EXPECT_FALSE(scheduler_->Idle());
  store_.Stall(false);
  worker.join();
  canceller.join();
  scheduler_->Tick();
  EXPECT_TRUE(scheduler_->Idle());
  EXPECT_EQ(StateOf(id), State::kQueued);
  EXPECT_EQ(StateOf(other), State::kCancelled);
}

TEST_F(SchedulerTest, ALogThatHangsHoldsNobodyElse) {
  const std::string id = Submit();
  absl::Notification hangs, go;
  on_log_ = [&] {
    if (hangs.HasBeenNotified()) return;
    hangs.Notify();
    go.WaitForNotification();
  };
  std::thread unlucky([&] { scheduler_->Tick(); });
  hangs.WaitForNotification();
  EXPECT_EQ(StateOf(id), State::kRunning);
  // Nor do those that log themselves wait for the other's line.
  EXPECT_TRUE(scheduler_->Cancel(Submit()).ok());
  scheduler_->Drain();
  go.Notify();
  unlucky.join();
  ASSERT_NE(launcher_.listener, nullptr);
  EXPECT_EQ(launcher_.preempted, 1);
  launcher_.Exit(ExitReason::kPreempted);
  scheduler_->Tick();
  EXPECT_THAT(log_, Contains(HasSubstr("cancelled while queued")));
  on_log_ = nullptr;
}

TEST_F(SchedulerTest, RecoverRequeuesWhatRan) {
  const std::string ran = Submit(), queued = Submit(5);
  scheduler_->Tick();
  ASSERT_EQ(Running(), queued);
  Worker().OnCheckpoint(At(1, "/step-1"));
  // The row as a daemon killed at this moment leaves it.
  const Job row = Stored(queued);
  launcher_.listener = nullptr;
  Restart();
  ASSERT_EQ(StateOf(queued), State::kRunning);
  ASSERT_TRUE(scheduler_->Recover().ok());
  EXPECT_EQ(StateOf(queued), State::kQueued);
  EXPECT_EQ(Stored(queued).failures, row.failures);
  EXPECT_THAT(Stored(queued).message, HasSubstr("last checkpoint"));
  EXPECT_EQ(exported_metrics_.returned,
            std::vector<ExitReason>{ExitReason::kInterrupted});
  EXPECT_EQ(board_->QueuePosition(queued), 0);
  EXPECT_EQ(board_->QueuePosition(ran), 1);
  scheduler_->Tick();
  EXPECT_EQ(Running(), queued);
  EXPECT_EQ(Stored(queued).attempt, 2);
}

TEST_F(SchedulerTest, RecoverCancelsWhatWasToBeCancelled) {
  const std::string id = Submit();
  scheduler_->Tick();
  ASSERT_TRUE(scheduler_->Cancel(id).ok());
  launcher_.listener = nullptr;
  Restart();
  ASSERT_TRUE(scheduler_->Recover().ok());
  EXPECT_EQ(StateOf(id), State::kCancelled);
  scheduler_->Tick();
  EXPECT_EQ(Running(), "");
}

TEST_F(SchedulerTest, RecoverKeepsTheBackOff) {
  const std::string id = Submit();
  scheduler_->Tick();
  launcher_.Exit(ExitReason::kCrashed);
  Restart();
  ASSERT_TRUE(scheduler_->Recover().ok());
  EXPECT_EQ(scheduler_->Tick(), *Stored(id).not_before);
  EXPECT_EQ(Running(), "");
}

TEST_F(SchedulerTest, RecoverReadsManyPages) {
  for (int i = 0; i < 1100; ++i) Submit();
  Restart();
  ASSERT_TRUE(scheduler_->Recover().ok());
  const std::vector<Job> newest = *board_->List({});
  EXPECT_EQ(board_->QueuePosition(newest.front().id), 1099);
}

TEST_F(SchedulerTest, RecoverReportsTheStoresError) {
  Submit();
  scheduler_->Tick();
  launcher_.listener = nullptr;
  Restart();
  store_.FailWith(absl::ResourceExhaustedError("disk full"));
  EXPECT_TRUE(absl::IsResourceExhausted(scheduler_->Recover()));
}

TEST_F(SchedulerTest, RecoverMakesRoomOnAFullDisk) {
  const std::string id = Submit();
  scheduler_->Tick();
  launcher_.listener = nullptr;
  Restart();
  store_.FailWith(absl::ResourceExhaustedError("disk full"));
  files_.make_room = [this] {
    store_.FailWith(absl::OkStatus());
    return true;
  };
  ASSERT_TRUE(scheduler_->Recover().ok());
  EXPECT_EQ(StateOf(id), State::kQueued);
  EXPECT_EQ(board_->QueuePosition(id), 0);
}

TEST_F(SchedulerTest, AJobThatHasEndedIsDeleted) {
  const std::string id = Submit();
  EXPECT_EQ(scheduler_->Delete(id).status().code(),
            absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(scheduler_->Cancel(id).ok());
  int woken = 0;
  const int64_t token = board_->Subscribe(id, [&] { ++woken; });
  const absl::StatusOr<int64_t> freed = scheduler_->Delete(id);
  board_->Unsubscribe(token);
  ASSERT_TRUE(freed.ok()) << freed.status();
  EXPECT_EQ(*freed, 42);
  EXPECT_GE(woken, 1);
  EXPECT_EQ(exported_metrics_.deleted, std::vector<std::string>{id});
  EXPECT_EQ(exported_metrics_.counts[State::kCancelled], 0);
  EXPECT_FALSE(files_.specs.contains(id));
  EXPECT_TRUE(absl::IsNotFound(board_->Get(id).status()));
  EXPECT_TRUE(absl::IsNotFound(scheduler_->Delete(id).status()));
}

TEST_F(SchedulerTest, AnEndThatIsNotStoredKeepsTheJob) {
  const std::string id = Submit();
  scheduler_->Tick();
  EXPECT_EQ(scheduler_->Delete(id).status().code(),
            absl::StatusCode::kFailedPrecondition);
  store_.FailWith(absl::ResourceExhaustedError("disk full"));
  launcher_.Exit(ExitReason::kDone);
  EXPECT_TRUE(absl::IsUnavailable(scheduler_->Delete(id).status()));
  store_.FailWith(absl::OkStatus());
  scheduler_->Tick();
  EXPECT_TRUE(scheduler_->Delete(id).ok());
}

// Whenever nobody wants it any more: no job, no folder, no word of either.
TEST_F(SchedulerTest, ASubmitThatNobodyWaitsForMakesNoJob) {
  absl::StatusOr<SubmitResult> result = absl::UnknownError("");
  int steps = 0;
  for (; steps < 100 && !result.ok(); ++steps) {
    EXPECT_TRUE(board_->List({})->empty());
    EXPECT_TRUE(files_.specs.empty());
    int left = steps;
    SubmitRequest request = Request();
    request.wanted = [&] {
      return left-- > 0 ? absl::OkStatus() : absl::CancelledError("gone");
    };
    result = scheduler_->Submit(request);
    EXPECT_TRUE(result.ok() || absl::IsCancelled(result.status()));
  }
  EXPECT_TRUE(result.ok()) << result.status();
  EXPECT_GT(steps, 3);
  EXPECT_EQ(board_->List({})->size(), 1u);
}

TEST_F(SchedulerTest, ASubmitEndsWhenMpsdBeginsToStop) {
  files_.on_create = [this] { scheduler_->Drain(); };
  const absl::Status status = scheduler_->Submit(Request()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(files_.specs.empty());
  files_.on_create = [] { FAIL() << "after Drain"; };
  EXPECT_FALSE(scheduler_->Submit(Request()).ok());
}

}  // namespace
}  // namespace mpsd::jobs
