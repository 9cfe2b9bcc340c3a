// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "absl/synchronization/notification.h"
#include "tests/core/status_matchers.h"
#include "tests/server/jobs/scheduler_fixture.h"

namespace mpsd::jobs {
namespace {

using enum absl::StatusCode;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing_support::Fails;
using testing_support::Ok;

using SchedulerTest = SchedulerFixture;

TEST_F(SchedulerTest, SubmitAnswersWithADurableJob) {
  SubmitRequest request = Request();
  request.owner = "ann";
  request.labels = {{"team", "nlp"}};
  request.priority = 3;
  auto result = Ok(scheduler_->Submit(request));
  EXPECT_FALSE(result.existed);
  const Job job = Stored(result.job.id);
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

TEST_F(SchedulerTest, AKeyIsItsOwnersAndOfOneRequest) {
  SubmitRequest request = Request();
  request.owner = "ada";
  request.idempotency_key = "key";
  const std::string id = scheduler_->Submit(request)->job.id;
  auto again = Ok(scheduler_->Submit(request));
  EXPECT_TRUE(again.existed);
  EXPECT_EQ(again.job.id, id);
  EXPECT_EQ(board_->List({})->size(), 1);
  request.priority = 1;
  EXPECT_THAT(scheduler_->Submit(request), Fails(kAlreadyExists, id));
  request.owner = "bob";
  auto other = Ok(scheduler_->Submit(request));
  EXPECT_FALSE(other.existed);
  EXPECT_NE(other.job.id, id);
  EXPECT_EQ(other.job.owner, "bob");
  files_.models.clear();
  EXPECT_EQ(scheduler_->Submit(request)->job.id, other.job.id)
      << "a key outlives the model it needed";
}

TEST_F(SchedulerTest, CancellingAQueuedJobEndsIt) {
  const std::string first = Submit(), second = Submit();
  auto job = Ok(scheduler_->Cancel(first));
  EXPECT_EQ(job.state, State::kCancelled);
  EXPECT_EQ(job.end_time, clock_.Now());
  EXPECT_THAT(History(first), ElementsAre(State::kQueued, State::kCancelled));
  EXPECT_EQ(board_->QueuePosition(first), std::nullopt);
  EXPECT_EQ(board_->QueuePosition(second), 0);
  EXPECT_THAT(exported_metrics_.ended, ElementsAre(first));
  EXPECT_THAT(exported_metrics_.end_states, ElementsAre(State::kCancelled));
  EXPECT_EQ(Next(), second);
  clock_.Advance(absl::Seconds(1));
  auto again = scheduler_->Cancel(first);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->end_time, job.end_time);
  EXPECT_EQ(History(first).size(), 2);
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

TEST_F(SchedulerTest, ACancelIsAnsweredOnceItIsStored) {
  const std::string id = Start();
  store_.FailWith(absl::ResourceExhaustedError("disk full"));
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(scheduler_->Cancel(id),
                Fails(kAborted,
                      AllOf(HasSubstr("disk full"), HasSubstr("again when"))));
    EXPECT_EQ(launcher_.cancelled, 1) << "its worker was asked nonetheless";
  }
  EXPECT_FALSE(Stored(id).cancel_requested);
  store_.FailWith(absl::OkStatus());
  EXPECT_TRUE(scheduler_->Cancel(id).ok());
  EXPECT_TRUE(Stored(id).cancel_requested);
  EXPECT_EQ(launcher_.cancelled, 1);
  KillAndRestart();
  EXPECT_EQ(StateOf(id), State::kCancelled);
  EXPECT_EQ(Next(), "");
}

TEST_F(SchedulerTest, ACancelForNowIsToldAgain) {
  const std::string id = Start();
  ASSERT_TRUE(scheduler_->Cancel(id).ok());
  EXPECT_EQ(launcher_.grace, absl::Minutes(2));
  ASSERT_TRUE(scheduler_->Cancel(id, /*now=*/true).ok());
  EXPECT_EQ(launcher_.cancelled, 2);
  EXPECT_EQ(launcher_.grace, absl::ZeroDuration());
}

TEST_F(SchedulerTest, AFailedJobIsTriedAgainFromItsCheckpoints) {
  const std::string first = Submit(), second = Submit();
  for (int wait : {10, 20, 0}) {
    ASSERT_EQ(Next(), first) << "a job that came back keeps its place";
    Worker().OnProgress(Step(1));
    launcher_.Exit(ExitReason::kCrashed, "SIGSEGV");
    clock_.Advance(absl::Seconds(wait));
  }
  ASSERT_EQ(StateOf(first), State::kFailed);
  const auto job = Ok(scheduler_->Retry(first));
  EXPECT_EQ(job.state, State::kQueued);
  EXPECT_EQ(job.failures, 0);
  EXPECT_EQ(job.end_time, std::nullopt);
  EXPECT_EQ(exported_metrics_.counts.at(State::kQueued), 2);
  EXPECT_EQ(Next(), first);
  EXPECT_EQ(Stored(first).attempt, 4);
  EXPECT_THAT(files_.removed_runs, IsEmpty());
  launcher_.Exit(ExitReason::kDone);
  EXPECT_THAT(History(first),
              ElementsAre(State::kQueued, State::kRunning, State::kQueued,
                          State::kRunning, State::kQueued, State::kRunning,
                          State::kFailed, State::kQueued, State::kRunning,
                          State::kSucceeded));
}

TEST_F(SchedulerTest, ACancelledJobIsTriedAgainAndAQueuedOneRefused) {
  const std::string id = Submit();
  ASSERT_TRUE(scheduler_->Cancel(id).ok());
  ASSERT_TRUE(scheduler_->Retry(id).ok());
  EXPECT_EQ(board_->QueuePosition(id), 0);
  EXPECT_THAT(scheduler_->Retry(id), Fails(kFailedPrecondition, "is QUEUED"));
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
  End(ExitReason::kPreempted);
  EXPECT_THAT(log_, Contains(HasSubstr("cancelled while queued")));
  on_log_ = nullptr;
}

TEST_F(SchedulerTest, RecoverRequeuesWhatRan) {
  const std::string ran = Submit(), queued = Start(5);
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
  EXPECT_EQ(Next(), queued);
  EXPECT_EQ(Stored(queued).attempt, 2);
}

TEST_F(SchedulerTest, RecoverKeepsTheBackOff) {
  const std::string id = Start();
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

TEST_F(SchedulerTest, RecoverMakesRoomOnAFullDiskOrReportsIt) {
  const std::string id = Start();
  launcher_.listener = nullptr;
  store_.FailWith(absl::ResourceExhaustedError("disk full"));
  Restart();
  EXPECT_TRUE(absl::IsResourceExhausted(scheduler_->Recover()));
  Restart();
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
  EXPECT_THAT(scheduler_->Delete(id), Fails(kFailedPrecondition));
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
  const std::string id = Start();
  EXPECT_THAT(scheduler_->Delete(id), Fails(kFailedPrecondition));
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

TEST_F(SchedulerTest, NothingToDoTakesForever) {
  EXPECT_EQ(scheduler_->Tick(), absl::InfiniteFuture());
  EXPECT_TRUE(scheduler_->Idle());
}

TEST_F(SchedulerTest, RunsAJobFromStartToEnd) {
  const std::string id = Submit();
  clock_.Advance(absl::Seconds(5) - absl::Milliseconds(1));
  EXPECT_EQ(scheduler_->Tick(), absl::InfiniteFuture());
  EXPECT_EQ(StateOf(id), State::kRunning);
  EXPECT_EQ(Running(), id);
  EXPECT_THAT(exported_metrics_.waits, ElementsAre(absl::Seconds(5)));
  EXPECT_EQ(exported_metrics_.started[0].id, id);
  EXPECT_EQ(exported_metrics_.started[0].task, "CAUSAL_LM");
  EXPECT_EQ(exported_metrics_.queue.oldest, std::nullopt);
  ASSERT_THAT(launcher_.requests, SizeIs(1));
  EXPECT_EQ(launcher_.requests[0].job_id, id);
  EXPECT_EQ(launcher_.requests[0].kind, JobKind::kTraining);
  EXPECT_EQ(launcher_.requests[0].spec_path, "/state/jobs/" + id + "/job.json");
  EXPECT_EQ(launcher_.requests[0].output_dir, "/state/jobs/" + id + "/out");
  EXPECT_EQ(launcher_.requests[0].log_path, "/state/jobs/" + id + "/log");
  EXPECT_EQ(launcher_.requests[0].hang_timeout, absl::Minutes(10));

  Worker().OnHello({42, "0.1.0", "2.11.0"});
  Worker().OnHeartbeat("loading model", 0.5);
  Worker().OnEvaluated({0, 2.5, 0, 0, {{"f1", 0.5}}});
  Worker().OnProgress(Step(1));
  Worker().OnCheckpoint(At(1, "/out/step-1"));
  launcher_.Exit(ExitReason::kDone);

  const Job job = Stored(id);
  EXPECT_EQ(job.state, State::kSucceeded);
  EXPECT_EQ(job.attempt, 1);
  EXPECT_EQ(job.exit_reason, ExitReason::kDone);
  EXPECT_EQ(job.eval_loss_before, 2.5);
  EXPECT_EQ(job.metrics, (Metrics{{"f1", 0.5}}));
  EXPECT_THAT(exported_metrics_.eval_metrics,
              ElementsAre(Metrics{{"f1", 0.5}}));
  EXPECT_EQ(job.eval_loss_after, 0.5);
  EXPECT_EQ(job.progress->step, 1);
  EXPECT_EQ(job.output_path, "/adapter");
  EXPECT_THAT(History(id),
              ElementsAre(State::kQueued, State::kRunning, State::kSucceeded));
  EXPECT_EQ(Running(), "");
  EXPECT_EQ(launcher_.alive, 1) << "reaped by Tick, not by its own thread";
  scheduler_->Tick();
  EXPECT_EQ(launcher_.alive, 0);
  EXPECT_TRUE(scheduler_->Idle());
}

TEST_F(SchedulerTest, RemembersTheWorkerAndItsDevice) {
  Start();
  Worker().OnHello({42, "0.1.0", "2.11.0"});
  Worker().OnDevice("cuda");
  EXPECT_EQ(board_->Info().device, "cuda");
  EXPECT_THAT(exported_metrics_.devices, ElementsAre("cuda"));
  Worker().OnProgress(Step(1));
  const ManagerInfo info = board_->Info();
  EXPECT_EQ(info.worker_version, "0.1.0");
  EXPECT_EQ(info.torch_version, "2.11.0");
  EXPECT_EQ(info.device, "mps");
  EXPECT_EQ(info.memory.footprint_bytes, 123);
  EXPECT_EQ(info.jobs.at(State::kRunning), 1);
}

TEST_F(SchedulerTest, OneAtATimeInOrder) {
  const std::string low = Submit(-1), first = Submit(), second = Submit(),
                    high = Submit(1);
  for (const std::string& id : {high, first, second, low}) {
    EXPECT_EQ(Next(), id);
    EXPECT_EQ(Next(), id);
    EXPECT_EQ(launcher_.alive, 1);
    launcher_.Exit(ExitReason::kDone);
  }
}

TEST_F(SchedulerTest, ATakenDeviceIsNoFailure) {
  const std::string id = Submit();
  launcher_.ready = absl::UnavailableError("an old worker");
  EXPECT_EQ(scheduler_->Tick(), clock_.Now() + absl::Seconds(1));
  EXPECT_EQ(StateOf(id), State::kQueued);
  EXPECT_EQ(Stored(id).attempt, 0);
  EXPECT_EQ(board_->Info().hold, "an old worker");
  launcher_.ready = absl::OkStatus();
  EXPECT_EQ(Next(), id);
  EXPECT_EQ(board_->Info().hold, "");
}

TEST_F(SchedulerTest, TheNextAttemptKnowsHowSlowAStepIs) {
  Start();
  EXPECT_EQ(launcher_.requests[0].slowest_step, absl::ZeroDuration());
  Progress slow = Step(1);
  slow.seconds = 900;
  Worker().OnProgress(slow);
  launcher_.Exit(ExitReason::kCrashed);
  After(absl::Seconds(10));
  scheduler_->Tick();
  ASSERT_THAT(launcher_.requests, SizeIs(2));
  EXPECT_EQ(launcher_.requests[1].slowest_step, absl::Minutes(15));
}

TEST_F(SchedulerTest, CrashesAreTriedAgainAfterAWait) {
  const std::string id = Submit();
  for (absl::Duration wait : {absl::Seconds(10), absl::Seconds(20)}) {
    ASSERT_EQ(Next(), id);
    launcher_.Exit(ExitReason::kCrashed, "SIGSEGV");
    EXPECT_EQ(StateOf(id), State::kQueued);
    EXPECT_EQ(scheduler_->Tick(), clock_.Now() + wait);
    EXPECT_EQ(Running(), "");
    clock_.Advance(wait);
  }
  scheduler_->Tick();
  launcher_.Exit(ExitReason::kHung, "silent");
  EXPECT_EQ(StateOf(id), State::kFailed);
  EXPECT_EQ(Stored(id).attempt, 3);
  EXPECT_EQ(Stored(id).exit_reason, ExitReason::kHung);
  EXPECT_THAT(Stored(id).message, HasSubstr("3 failures in a row"));
  EXPECT_THAT(exported_metrics_.ended, ElementsAre(id));
  EXPECT_THAT(exported_metrics_.end_states, ElementsAre(StateOf(id)));
  EXPECT_THAT(exported_metrics_.exits, SizeIs(3));
  EXPECT_THAT(exported_metrics_.returned,
              ElementsAre(ExitReason::kCrashed, ExitReason::kCrashed));
}

// A job that never ran has no time that anybody could know.
TEST_F(SchedulerTest, TheQueuesTimeIsKnownOnceEveryJobRan) {
  const std::string id = Submit();
  EXPECT_EQ(exported_metrics_.queue.time_left, std::nullopt);
  scheduler_->Tick();
  EXPECT_EQ(exported_metrics_.queue.time_left, absl::ZeroDuration());
  EXPECT_EQ(exported_metrics_.started.back().time_left, std::nullopt);
  Worker().OnProgress(Step(11));
  Worker().OnCheckpoint(At(11, "/step-11"));
  Worker().OnProgress(Step(20));
  launcher_.Exit(ExitReason::kCrashed);
  EXPECT_EQ(exported_metrics_.queue.time_left, 89 * absl::Seconds(0.5));
  After(absl::Minutes(1));
  scheduler_->Tick();
  EXPECT_EQ(exported_metrics_.started.back().time_left,
            89 * absl::Seconds(0.5));
}

TEST_F(SchedulerTest, AnotherAttemptHasNoDeviceOfTheLast) {
  Start();
  Worker().OnProgress(Step(1));
  launcher_.Exit(ExitReason::kCrashed);
  After(absl::Minutes(1));
  scheduler_->Tick();
  Worker().OnEvaluated({1, 2.5, 0, 0, {}});
  EXPECT_THAT(exported_metrics_.eval_devices, ElementsAre(""));
}

TEST_F(SchedulerTest, TellsTheStagesButNoBeat) {
  Start();
  Worker().OnHeartbeat("loading model", 0.5);
  Worker().OnHeartbeat("", 0);
  Worker().OnHeartbeat("saving", 0);
  EXPECT_THAT(exported_metrics_.stages, ElementsAre("loading model", "saving"));
}

TEST_F(SchedulerTest, ProgressForgivesFailures) {
  const std::string id = Submit();
  for (int attempt = 1; attempt <= 10; ++attempt) {
    ASSERT_EQ(Next(), id);
    Worker().OnCheckpoint(At(attempt, "/step-" + std::to_string(attempt)));
    launcher_.Exit(ExitReason::kCrashed);
    ASSERT_EQ(Stored(id).failures, 1);
    clock_.Advance(absl::Seconds(10));
  }
  scheduler_->Tick();
  // Not a new one: this run came as far before.
  Worker().OnCheckpoint(At(10, "/step-10"));
  launcher_.Exit(ExitReason::kCrashed);
  EXPECT_EQ(Stored(id).failures, 2);
}

TEST_F(SchedulerTest, CancellingARunningJobWaitsForItsWorker) {
  const std::string id = Start();
  auto job = Ok(scheduler_->Cancel(id));
  EXPECT_EQ(job.state, State::kRunning);
  EXPECT_TRUE(job.cancel_requested);
  EXPECT_TRUE(Stored(id).cancel_requested);
  ASSERT_TRUE(scheduler_->Cancel(id).ok());
  EXPECT_EQ(launcher_.cancelled, 1);
  launcher_.Exit(ExitReason::kCancelled);
  EXPECT_EQ(StateOf(id), State::kCancelled);
  EXPECT_FALSE(Stored(id).cancel_requested);
  scheduler_->Tick();
  EXPECT_TRUE(scheduler_->Idle());
}

TEST_F(SchedulerTest, ACancelAfterACrashFindsTheQueuedJob) {
  const std::string id = Start();
  launcher_.Exit(ExitReason::kCrashed);
  EXPECT_EQ(scheduler_->Cancel(id)->state, State::kCancelled);
  scheduler_->Tick();
  clock_.Advance(absl::Hours(1));
  EXPECT_EQ(Next(), "");
}

TEST_F(SchedulerTest, DrainBringsTheRunningJobBack) {
  const std::string running = Submit(), waiting = Submit();
  scheduler_->Tick();
  scheduler_->Drain();
  EXPECT_EQ(launcher_.preempted, 1);
  EXPECT_FALSE(scheduler_->Idle());
  EXPECT_TRUE(absl::IsUnavailable(scheduler_->Submit(Request()).status()));
  launcher_.Exit(ExitReason::kPreempted, "stopped at a checkpoint");
  EXPECT_EQ(StateOf(running), State::kQueued);
  EXPECT_EQ(Stored(running).failures, 0);
  EXPECT_EQ(scheduler_->Tick(), absl::InfiniteFuture());
  EXPECT_TRUE(scheduler_->Idle());
  EXPECT_EQ(StateOf(waiting), State::kQueued);
  EXPECT_THAT(launcher_.requests, SizeIs(1));
}

TEST_F(SchedulerTest, DestroyingKillsTheWorkerAndRequeues) {
  const std::string id = Start();
  scheduler_.reset();
  EXPECT_EQ(launcher_.alive, 0);
  EXPECT_EQ(StateOf(id), State::kQueued);
}

TEST_F(SchedulerTest, QuickStepsShareATransaction) {
  const std::string id = Start();
  const int before = store_.updates();
  for (int step = 1; step <= 50; ++step) {
    Worker().OnProgress(Step(step));
    clock_.Advance(absl::Milliseconds(10));
  }
  EXPECT_EQ(store_.updates() - before, 2);
  EXPECT_EQ(exported_metrics_.steps, 50);
  Worker().OnProgress(Step(100, 100));
  EXPECT_EQ(store_.updates() - before, 3) << "the last step is never held back";
  EXPECT_EQ(Stored(id).progress->step, 100);
  EXPECT_EQ(Stored(id).progress->tokens_per_second, 100);
}

TEST_F(SchedulerTest, AStepHeldBackIsWrittenByTick) {
  const std::string id = Start();
  int woken = 0;
  const int64_t token = board_->Subscribe(id, [&] { ++woken; });
  const int changes = changes_;
  Worker().OnProgress(Step(1));
  EXPECT_EQ(changes_, changes + 1);
  EXPECT_EQ(woken, 0);
  EXPECT_EQ(scheduler_->Tick(), clock_.Now() + absl::Milliseconds(200));
  EXPECT_FALSE(Stored(id).progress.has_value());
  clock_.Advance(absl::Milliseconds(200));
  EXPECT_EQ(scheduler_->Tick(), absl::InfiniteFuture());
  EXPECT_EQ(Stored(id).progress->step, 1);
  EXPECT_EQ(woken, 1);
  board_->Unsubscribe(token);  // the board outlives `woken`
}

TEST_F(SchedulerTest, CheckpointsAreListedAndTheRemovedOnesGo) {
  const std::string id = Start();
  Worker().OnProgress(Step(1));
  Worker().OnCheckpoint(At(1, "/step-1"));
  Worker().OnCheckpoint(At(2, "/step-2"));
  Worker().OnCheckpoint(At(3, "/step-3", {"/step-1", "/step-2"}));
  auto checkpoints = board_->Checkpoints(id);
  ASSERT_TRUE(checkpoints.ok());
  ASSERT_THAT(*checkpoints, SizeIs(1));
  EXPECT_EQ(checkpoints->front().path, "/step-3");
  EXPECT_EQ(checkpoints->front().create_time, clock_.Now());
  EXPECT_THAT(exported_metrics_.checkpoint_seconds,
              ElementsAre(0.25, 0.25, 0.25));
  EXPECT_THAT(exported_metrics_.checkpoint_jobs, ElementsAre(id, id, id));
}

TEST_F(SchedulerTest, AWarningIsStoredAndWatched) {
  const std::string id = Start();
  int woken = 0;
  const int64_t token = board_->Subscribe(id, [&] { ++woken; });
  Worker().OnWarning("memory grows");
  EXPECT_EQ(woken, 1);
  board_->Unsubscribe(token);
  EXPECT_THAT(Stored(id).warnings, ElementsAre("memory grows"));
  const Event last = board_->Events(id, 0)->back();
  EXPECT_EQ(std::get<Note>(last.body).text, "memory grows");
  EXPECT_TRUE(std::get<Note>(last.body).is_warning);
}

TEST_F(SchedulerTest, WatchersAreWoken) {
  const std::string id = Submit();
  int woken = 0;
  const int64_t token = board_->Subscribe(id, [&] { ++woken; });
  scheduler_->Tick();
  EXPECT_EQ(woken, 1);
  clock_.Advance(absl::Seconds(1));
  Worker().OnProgress(Step(1));
  Worker().OnHeartbeat("evaluating", 0);
  EXPECT_EQ(woken, 3);
  launcher_.Exit(ExitReason::kCrashed);
  EXPECT_EQ(woken, 4);
  board_->Unsubscribe(token);
  ASSERT_TRUE(scheduler_->Cancel(id).ok());
  EXPECT_EQ(woken, 4);
}

TEST_F(SchedulerTest, AFullDiskDelaysTheEndButLosesNothing) {
  const std::string id = Start();
  store_.FailWith(absl::ResourceExhaustedError("disk full"));
  Worker().OnEvaluated({0, 2, 0, 0, {}});
  Worker().OnCheckpoint(At(1, "/step-1"));
  Worker().OnCheckpoint(At(2, "/step-2", {"/step-1"}));
  launcher_.Exit(ExitReason::kDone);
  EXPECT_EQ(StateOf(id), State::kRunning);
  EXPECT_EQ(board_->Info().hold_reason, "storage");
  EXPECT_THAT(board_->HoldOf(id), HasSubstr("disk full"));
  EXPECT_TRUE(exported_metrics_.held.contains(HoldReason::kStorage));
  EXPECT_EQ(scheduler_->Tick(), clock_.Now() + absl::Seconds(1));
  EXPECT_FALSE(scheduler_->Idle());
  EXPECT_TRUE(absl::IsAborted(scheduler_->Cancel(id).status()));
  int woken = 0;
  const int64_t token = board_->Subscribe(id, [&] { ++woken; });
  store_.FailWith(absl::OkStatus());
  scheduler_->Tick();
  EXPECT_EQ(StateOf(id), State::kSucceeded);
  EXPECT_EQ(Stored(id).eval_loss_before, 2);
  ASSERT_THAT(*board_->Checkpoints(id), SizeIs(1));
  EXPECT_EQ(board_->Checkpoints(id)->front().path, "/step-2");
  EXPECT_TRUE(scheduler_->Idle());
  EXPECT_EQ(board_->Info().hold, "");
  EXPECT_THAT(exported_metrics_.held, IsEmpty());
  EXPECT_EQ(exported_metrics_.counts.at(State::kSucceeded), 1);
  EXPECT_EQ(woken, 1) << "a watcher would wait for ever";
  board_->Unsubscribe(token);
}

TEST_F(SchedulerTest, ACheckpointTheStoreRefusesHoldsNobody) {
  const std::string id = Start();
  Worker().OnCheckpoint(At(-1, "/step--1"));
  Worker().OnCheckpoint(At(1, "/step-1"));
  EXPECT_EQ(board_->Info().hold, "");
  EXPECT_THAT(log_, Contains(HasSubstr("checkpoint: ")));
  ASSERT_THAT(*board_->Checkpoints(id), SizeIs(1));
  End(ExitReason::kDone);
  EXPECT_TRUE(scheduler_->Idle());
}

TEST_F(SchedulerTest, AStartThatIsNotStoredIsNoStart) {
  const std::string id = Submit();
  store_.FailWith(absl::ResourceExhaustedError("disk full"));
  EXPECT_EQ(scheduler_->Tick(), clock_.Now() + absl::Seconds(1));
  EXPECT_THAT(launcher_.requests, IsEmpty());
  store_.FailWith(absl::OkStatus());
  EXPECT_EQ(Next(), id);
  EXPECT_EQ(Stored(id).attempt, 1);
}

TEST_F(SchedulerTest, TheJobsLogTellsItsStory) {
  const std::string id = Start();
  Worker().OnHello({42, "0.1.0", "2.11.0"});
  launcher_.Exit(ExitReason::kRejected, "train.jsonl:3");
  const auto& log = files_.logs.at(id);
  ASSERT_THAT(log, SizeIs(4));
  EXPECT_EQ(log[1], "attempt 1 starts");
  EXPECT_THAT(log[2], HasSubstr("pid 42"));
  EXPECT_EQ(log[3],
            "attempt 1 ended: Rejected, the job is FAILED: train.jsonl:3");
}

}  // namespace
}  // namespace mpsd::jobs
