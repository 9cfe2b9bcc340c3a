// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/scheduler.h"

#include <cmath>
#include <limits>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "tests/core/scratch_folder.h"
#include "tests/core/status_matchers.h"
#include "tests/server/jobs/scheduler_fixture.h"

// The scheduler from a job's submission to its end: recovery, drain, what a
// machine lacks or is blamed for (the table of server/jobs/attempt_end.h),
// retries, pauses, fair share, limits of time, preemption.

namespace mpsd::jobs {
namespace {

using enum absl::StatusCode;
using host::MemoryPressure;
using host::PowerSource;

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

TEST_F(SchedulerTest, WhatIsNotStoredIsNotSubmitted) {
  db_->FillDisk();
  EXPECT_TRUE(
      absl::IsResourceExhausted(scheduler_->Submit(Request()).status()));
  EXPECT_THAT(files_.specs, IsEmpty());
  db_->FreeDisk();
  files_.failure = absl::PermissionDeniedError("jobs/");
  EXPECT_TRUE(absl::IsPermissionDenied(scheduler_->Submit(Request()).status()));
  EXPECT_THAT(*board_->List({}), IsEmpty());
  scheduler_->Tick();
  EXPECT_THAT(launcher_.requests, IsEmpty());
}

// As of a second daemon, or of a hand in the database.
TEST_F(SchedulerTest, ARowOfAnotherProgramEndsTheDaemon) {
  Start();
  Worker().OnWarning("memory grows");
  EXPECT_EQ(gave_up_, "");
  db_->Execute(
      "INSERT INTO events SELECT job, max(sequence) + 1, time_us, kind, body "
      "FROM events");
  Worker().OnWarning("memory still grows");
  EXPECT_THAT(gave_up_, HasSubstr("another program wrote the queue"));
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

TEST_F(SchedulerTest, ACancelIsAnsweredOnceItIsStored) {
  const std::string id = Start();
  db_->FillDisk();
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(scheduler_->Cancel(id),
                Fails(kAborted, AllOf(HasSubstr("disk is full"),
                                      HasSubstr("again when"))));
    EXPECT_EQ(launcher_.cancelled, 1) << "its worker was asked nonetheless";
  }
  EXPECT_FALSE(Stored(id).cancel_requested);
  db_->FreeDisk();
  EXPECT_TRUE(scheduler_->Cancel(id).ok());
  EXPECT_TRUE(Stored(id).cancel_requested);
  EXPECT_EQ(launcher_.cancelled, 1);
  KillAndRestart();
  EXPECT_EQ(StateOf(id), State::kCancelled);
  EXPECT_EQ(Next(), "");
}

TEST_F(SchedulerTest, ACancelForNowIsSentAgain) {
  const std::string id = Start();
  ASSERT_TRUE(scheduler_->Cancel(id).ok());
  EXPECT_EQ(launcher_.grace, absl::Minutes(2));
  ASSERT_TRUE(scheduler_->Cancel(id, /*now=*/true).ok());
  EXPECT_EQ(launcher_.cancelled, 2);
  EXPECT_EQ(launcher_.grace, absl::ZeroDuration());
  scheduler_->Tick();
  EXPECT_THAT(Notes(id), ElementsAre("cancelling; saving a checkpoint",
                                     "cancelling at once"));
}

TEST_F(SchedulerTest, ACancelWaitsForASlowStepAndADaemonThatStopsDoesNot) {
  const std::string id = Start();
  Progress slow = Step(1);
  slow.seconds = 3600;
  Worker().OnProgress(slow);
  ASSERT_TRUE(scheduler_->Cancel(id).ok());
  EXPECT_EQ(launcher_.grace, absl::Minutes(2) + 3 * absl::Hours(1));
  scheduler_->Drain();
  EXPECT_EQ(launcher_.preempt_grace, absl::Minutes(2));
  Worker().OnCheckpoint(At(2, "/state/c2"));
  End(ExitReason::kCancelled);
  EXPECT_EQ(StateOf(id), State::kCancelled);
  EXPECT_TRUE(scheduler_->Idle());
}

TEST_F(SchedulerTest, ACancelThatComesDuringTheLaunchIsHeard) {
  const std::string id = Submit();
  launcher_.within_launch = [&] { EXPECT_TRUE(scheduler_->Cancel(id).ok()); };
  scheduler_->Tick();
  EXPECT_EQ(launcher_.cancelled, 1);
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

TEST_F(SchedulerTest, ARetryThatIsNotStoredDoesNotCount) {
  const std::string id = Submit();
  ASSERT_TRUE(scheduler_->Cancel(id).ok());
  db_->FillDisk();
  EXPECT_TRUE(absl::IsResourceExhausted(scheduler_->Retry(id).status()));
  db_->FreeDisk();
  EXPECT_EQ(board_->QueuePosition(id), std::nullopt);
  scheduler_->Drain();
  EXPECT_TRUE(absl::IsUnavailable(scheduler_->Retry(id).status()));
}

// In a file, which others read while a change is written.
class SlowStoreTest : public SchedulerFixture {
 protected:
  SlowStoreTest()
      : SchedulerFixture(std::make_unique<fakes::TestStore>(
            FreshFolder("slow_store") / "mpsd.db")) {}
};

TEST_F(SlowStoreTest, WhatIsAskedIsAnsweredMeanwhile) {
  const std::string id = Submit(), other = Submit();
  scheduler_->Tick();
  absl::Notification hangs, go;
  db_->on_commit() = [&] {
    if (!hangs.HasBeenNotified()) hangs.Notify();
    go.WaitForNotification();
  };
  std::thread worker([&] {
    Worker().OnEvaluated({0, 2, 0, 0, {}});
    launcher_.Exit(ExitReason::kPreempted, "stopped at a checkpoint");
  });
  hangs.WaitForNotification();
  std::thread canceller([&] { EXPECT_TRUE(scheduler_->Cancel(other).ok()); });
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
  go.Notify();
  worker.join();
  canceller.join();
  db_->on_commit() = nullptr;
  scheduler_->Tick();
  EXPECT_TRUE(scheduler_->Idle());
  EXPECT_EQ(StateOf(id), State::kQueued);
  EXPECT_EQ(StateOf(other), State::kCancelled);
}

TEST_F(SchedulerTest, ALogThatHangsBlocksNoOtherCall) {
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

TEST_F(SchedulerTest, RecoverMakesRoomOnAFullDiskOrReportsIt) {
  const std::string id = Start();
  launcher_.listener = nullptr;
  db_->FillDisk();
  Restart();
  EXPECT_TRUE(absl::IsResourceExhausted(scheduler_->Recover()));
  Restart();
  files_.make_room = [this] {
    db_->FreeDisk();
    return true;
  };
  ASSERT_TRUE(scheduler_->Recover().ok());
  EXPECT_EQ(StateOf(id), State::kQueued);
  EXPECT_EQ(board_->QueuePosition(id), 0);
}

TEST_F(SchedulerTest, AJobThatHasEndedIsDeleted) {
  const std::string id = Submit();
  EXPECT_THAT(scheduler_->remover().Delete(id), Fails(kFailedPrecondition));
  ASSERT_TRUE(scheduler_->Cancel(id).ok());
  int woken = 0;
  const int64_t token = board_->Subscribe(id, [&] { ++woken; });
  const absl::StatusOr<int64_t> freed = scheduler_->remover().Delete(id);
  board_->Unsubscribe(token);
  ASSERT_TRUE(freed.ok()) << freed.status();
  EXPECT_EQ(*freed, 42);
  EXPECT_GE(woken, 1);
  EXPECT_EQ(exported_metrics_.deleted, std::vector<std::string>{id});
  EXPECT_EQ(exported_metrics_.counts[State::kCancelled], 0);
  EXPECT_FALSE(files_.specs.contains(id));
  EXPECT_TRUE(absl::IsNotFound(board_->Get(id).status()));
  EXPECT_TRUE(absl::IsNotFound(scheduler_->remover().Delete(id).status()));
}

// Whenever its caller gives up: no job, no folder, no message about either.
TEST_F(SchedulerTest, AnAbandonedSubmitMakesNoJob) {
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

TEST_F(SchedulerTest, RunsAJobFromStartToEnd) {
  EXPECT_EQ(scheduler_->Tick(), absl::InfiniteFuture());
  EXPECT_TRUE(scheduler_->Idle());
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
  Worker().OnDevice("cuda");
  EXPECT_EQ(board_->Info().device, "cuda");
  Worker().OnHeartbeat("loading model", 0.5);
  Worker().OnHeartbeat("", 0);
  Worker().OnHeartbeat("saving", 0);
  Worker().OnEvaluated({0, 2.5, 0, 0, {{"f1", 0.5}}});
  Worker().OnProgress(Step(1));
  const QueueInfo info = board_->Info();
  EXPECT_EQ(info.worker_version, "0.1.0");
  EXPECT_EQ(info.torch_version, "2.11.0");
  EXPECT_EQ(info.device, "mps");
  EXPECT_EQ(info.memory.footprint_bytes, 123);
  EXPECT_EQ(info.jobs.at(State::kRunning), 1);
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
  EXPECT_THAT(exported_metrics_.stages, ElementsAre("loading model", "saving"));
  EXPECT_THAT(exported_metrics_.devices, ElementsAre("cuda"));
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
  EXPECT_EQ(Stored(running).interruptions, 0);
  EXPECT_FALSE(Stored(running).runs_last);
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
  const int before = commits_;
  for (int step = 1; step <= 50; ++step) {
    Worker().OnProgress(Step(step));
    clock_.Advance(absl::Milliseconds(10));
  }
  EXPECT_EQ(commits_ - before, 2);
  EXPECT_EQ(exported_metrics_.steps, 50);
  Worker().OnProgress(Step(100, 100));
  EXPECT_EQ(commits_ - before, 3) << "the last step is never held back";
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

TEST_F(SchedulerTest, AFullDiskDelaysTheEndButLosesNothing) {
  const std::string id = Start();
  db_->FillDisk();
  Worker().OnEvaluated({0, 2, 0, 0, {}});
  Worker().OnCheckpoint(At(1, "/step-1"));
  Worker().OnCheckpoint(At(2, "/step-2", {"/step-1"}));
  launcher_.Exit(ExitReason::kDone);
  EXPECT_EQ(StateOf(id), State::kRunning);
  EXPECT_EQ(board_->Info().hold_reason, "storage");
  EXPECT_THAT(board_->HoldOf(id), HasSubstr("disk is full"));
  EXPECT_TRUE(exported_metrics_.held.contains(HoldReason::kStorage));
  EXPECT_EQ(scheduler_->Tick(), clock_.Now() + absl::Seconds(1));
  EXPECT_FALSE(scheduler_->Idle());
  EXPECT_TRUE(absl::IsAborted(scheduler_->Cancel(id).status()));
  int woken = 0;
  const int64_t token = board_->Subscribe(id, [&] { ++woken; });
  db_->FreeDisk();
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

TEST_F(SchedulerTest, ACheckpointTheStoreRefusesBlocksNoJob) {
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
  db_->FillDisk();
  EXPECT_EQ(scheduler_->Tick(), clock_.Now() + absl::Seconds(1));
  EXPECT_THAT(launcher_.requests, IsEmpty());
  db_->FreeDisk();
  EXPECT_EQ(Next(), id);
  EXPECT_EQ(Stored(id).attempt, 1);
}

TEST_F(SchedulerTest, TheJobsLogHoldsItsHistory) {
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

using SchedulerStartTest = SchedulerFixture;

TEST_F(SchedulerStartTest, AWorkerThatCannotStartHoldsTheQueue) {
  const std::string id = Submit(), other = Submit();
  launcher_.failure = absl::ResourceExhaustedError("worker.lock: no space");
  absl::Duration wait = absl::Seconds(10);
  for (int i = 1; i <= 10; ++i) {
    EXPECT_EQ(scheduler_->Tick(), clock_.Now());
    EXPECT_EQ(StateOf(id), State::kQueued);
    EXPECT_EQ(scheduler_->Tick(), clock_.Now() + wait) << i;
    EXPECT_EQ(board_->Info().hold_reason, "machine");
    EXPECT_THAT(board_->Info().hold, HasSubstr("worker.lock"));
    EXPECT_THAT(board_->HoldOf(other), HasSubstr("worker.lock"));
    EXPECT_TRUE(exported_metrics_.held.contains(HoldReason::kMachine));
    clock_.Advance(wait);
    wait = std::min(2 * wait, absl::Seconds(60));
  }
  EXPECT_EQ(Stored(id).failures, 0);
  EXPECT_EQ(Stored(id).exit_reason, ExitReason::kMachine);
  EXPECT_EQ(Stored(other).attempt, 0);
  launcher_.failure = absl::OkStatus();
  EXPECT_EQ(Next(), id);
  EXPECT_EQ(board_->Info().hold, "");
}

TEST_F(SchedulerStartTest, AFullDiskHoldsAQueueAndFailsNoJob) {
  std::vector<std::string> ids;
  for (int i = 0; i < 4; ++i) ids.push_back(Submit());
  scheduler_->Tick();
  // What a worker says that knows no better, of a checkpoint.
  files_.free_bytes = 999;
  launcher_.Exit(ExitReason::kCrashed, "the worker failed: ofstream");
  for (int i = 0; i < 100; ++i) After(absl::Seconds(30));
  EXPECT_THAT(launcher_.requests, SizeIs(1));
  for (const std::string& id : ids) {
    EXPECT_EQ(StateOf(id), State::kQueued);
    EXPECT_EQ(Stored(id).failures, 0);
  }
  EXPECT_EQ(Stored(ids[0]).exit_reason, ExitReason::kMachine);
  EXPECT_THAT(Stored(ids[0]).message,
              AllOf(HasSubstr("not counted"), HasSubstr("--min-free-bytes")));
  EXPECT_EQ(board_->Info().hold_reason, "disk");
  EXPECT_EQ(board_->QueuePosition(ids[0]), 0) << "it kept its place";
  files_.free_bytes = int64_t{1} << 40;
  EXPECT_EQ(Next(), ids[0]);
  EXPECT_EQ(board_->Info().hold, "");
  EXPECT_EQ(LinesWith("no job starts (disk)"), 1) << "logged once";
}

TEST_F(SchedulerStartTest, NoRoomForOneJobsCheckpointHoldsThatJob) {
  const std::string large = Submit(), small = Submit();
  Job row = Stored(large);
  row.checkpoint_bytes = int64_t{1} << 50;
  ASSERT_TRUE(store_.Update(row, {}).ok());
  EXPECT_EQ(Next(), small);
  EXPECT_THAT(board_->HoldOf(large), HasSubstr("checkpoint of the job"));
  EXPECT_THAT(board_->HoldOf(small), IsEmpty());
}

TEST_F(SchedulerStartTest, AWorkerThatEndsWithinItsLaunchHasStartedAllTheSame) {
  const std::string id = Submit(9), next = Submit();
  launcher_.within_launch = [this] {
    launcher_.Exit(ExitReason::kMachine, "/out/x: Input/output error");
  };
  scheduler_->Tick();
  EXPECT_EQ(StateOf(id), State::kQueued);
  // Whether the job or the machine is at fault shows once another job has run.
  EXPECT_EQ(board_->QueuePosition(id), 1);
  EXPECT_EQ(board_->QueuePosition(next), 0);
}

TEST_F(SchedulerStartTest, WhatTheWorkerCallsTheMachinesIsNotCounted) {
  const std::string id = Submit(), other = Submit();
  scheduler_->Tick();
  launcher_.Exit(ExitReason::kMachine, "/out/x: Input/output error");
  EXPECT_EQ(StateOf(id), State::kQueued);
  EXPECT_EQ(Stored(id).failures, 0);
  EXPECT_EQ(scheduler_->Tick(), clock_.Now() + absl::Seconds(10));
  EXPECT_EQ(Running(), "");
  clock_.Advance(absl::Seconds(10));
  EXPECT_EQ(Next(), other) << "if it meets the fault, the machine is at fault";
  Worker().OnCheckpoint(At(1, "/step-1"));
  launcher_.Exit(ExitReason::kDone);
  EXPECT_EQ(Next(), id);
}

TEST_F(SchedulerStartTest, AVolumeThatIsAwayHoldsItsJobsAlone) {
  const std::string id = Submit();
  files_.models["org/other"] =
      JobFiles::Model{"/volumes/other", fakes::TinyModel()};
  SubmitRequest request = Request();
  request.spec_json =
      R"({"model": "org/other", "dataset": {"train": "/data/train.jsonl"}})";
  const std::string away = scheduler_->Submit(request)->job.id;
  ASSERT_TRUE(scheduler_->Cancel(id).ok());
  const std::string other = Submit();
  const auto model = files_.models.extract("org/other");
  EXPECT_EQ(Next(), other);
  EXPECT_EQ(Stored(away).attempt, 0);
  EXPECT_THAT(board_->HoldOf(away), HasSubstr("'/volumes/other'"));
  EXPECT_EQ(board_->Info().hold, "");
  launcher_.Exit(ExitReason::kDone);
  for (int i = 0; i < 20; ++i) After(absl::Seconds(30));
  EXPECT_EQ(StateOf(away), State::kQueued);
  EXPECT_EQ(LinesWith("/volumes/other"), 1);
  files_.models["org/other"] = model.mapped();
  clock_.Advance(absl::Seconds(30));
  EXPECT_EQ(Next(), away);
  EXPECT_THAT(board_->HoldOf(away), IsEmpty());
}

TEST_F(SchedulerStartTest, AVolumeThatGoesDuringTheAttemptIsNoRejection) {
  for (ExitReason reason : {ExitReason::kRejected, ExitReason::kCrashed}) {
    files_.paths = {"/data/train.jsonl"};
    const std::string id = Start();
    files_.paths.clear();
    launcher_.Exit(reason, "train.jsonl: No such file");
    EXPECT_EQ(StateOf(id), State::kQueued);
    EXPECT_EQ(Stored(id).exit_reason, ExitReason::kMachine);
    EXPECT_EQ(Stored(id).failures, 0);
    EXPECT_THAT(board_->HoldOf(id), HasSubstr("'/data/train.jsonl'"));
    ASSERT_TRUE(scheduler_->Cancel(id).ok());
  }
}

TEST_F(SchedulerStartTest, AnUnreadableRowStopsNeitherDaemonNorQueue) {
  const std::string first = Submit(), second = Submit(), third = Submit();
  ASSERT_EQ(Next(), first);
  db_->Spoil(first);
  db_->Spoil(second);
  KillAndRestart();
  for (const std::string& id : {first, second}) {
    EXPECT_EQ(StateOf(id), State::kFailed);
    EXPECT_THAT(Stored(id).message, HasSubstr("unreadable row"));
  }
  EXPECT_EQ(Next(), third);
  EXPECT_EQ(LinesWith("unreadable row"), 2);
}

TEST_F(SchedulerStartTest, ARowThatSpoilsInTheQueueIsPassedOver) {
  const std::string first = Submit(), second = Submit();
  db_->Spoil(first);
  EXPECT_EQ(Next(), second);
  EXPECT_EQ(StateOf(first), State::kFailed);
  EXPECT_EQ(exported_metrics_.counts.at(State::kFailed), 1);
  EXPECT_EQ(exported_metrics_.end_states, std::vector{State::kFailed});
  EXPECT_EQ(exported_metrics_.queue.oldest, std::nullopt);
  EXPECT_EQ(board_->QueuePosition(first), std::nullopt);
}

TEST_F(SchedulerStartTest, AClockSetBackLengthensNoWait) {
  const std::string id = Start();
  launcher_.Exit(ExitReason::kCrashed);
  clock_.SetBack(absl::Hours(24));
  scheduler_->Tick();
  clock_.Advance(absl::Seconds(10));
  EXPECT_EQ(Next(), id);
  launcher_.Exit(ExitReason::kCrashed);
  // And for a daemon that finds such a row.
  clock_.SetBack(absl::Hours(24));
  KillAndRestart();
  clock_.Advance(absl::Seconds(60));
  EXPECT_EQ(Next(), id);
}

TEST_F(SchedulerStartTest, AJobBeyondTheMachineIsRefusedUnlessForced) {
  machine_bytes_ = 1000;
  Restart();
  SubmitRequest request = Request();
  EXPECT_THAT(scheduler_->Submit(request),
              Fails(kFailedPrecondition,
                    AllOf(HasSubstr("this machine has 1000 B for it"),
                          HasSubstr("per_device_train_batch_size"),
                          HasSubstr("--anyway"))));
  request.anyway = true;
  const auto accepted = Ok(scheduler_->Submit(request));
  EXPECT_GT(accepted.job.memory_bytes, 1000);
  EXPECT_GT(accepted.job.checkpoint_bytes, 0);
  EXPECT_EQ(Next(), accepted.job.id);
}

using SchedulerBlameTest = SchedulerFixture;

TEST_F(SchedulerBlameTest, AJobThatTakesTheMachineDownIsGivenUp) {
  const std::string id = Submit(9), next = Submit();
  for (int32_t round = 1; round < 5; ++round) {
    ASSERT_EQ(Next(), round == 1 ? id : next);
    if (round > 1) {
      // The other one has had its turn; now the machine goes down again.
      End(ExitReason::kDone);
      clock_.Advance(absl::Minutes(1));
      ASSERT_EQ(Next(), id);
    }
    boot_id_ = "boot " + std::to_string(round + 1);
    KillAndRestart();
    ASSERT_EQ(StateOf(id), State::kQueued);
    EXPECT_EQ(Stored(id).interruptions, round);
    EXPECT_EQ(Stored(id).failures, 0);
    EXPECT_EQ(Stored(id).exit_reason, ExitReason::kInterrupted);
    EXPECT_THAT(Stored(id).message, HasSubstr("the machine went down"));
    if (StateOf(next) == State::kSucceeded) break;
  }
  while (StateOf(id) == State::kQueued) {
    clock_.Advance(absl::Minutes(1));
    ASSERT_EQ(Next(), id);
    KillAndRestart();
  }
  EXPECT_EQ(StateOf(id), State::kFailed);
  EXPECT_EQ(Stored(id).interruptions, 5);
  EXPECT_EQ(Stored(id).attempt, 5);
  EXPECT_THAT(Stored(id).message,
              AllOf(HasSubstr("5 interruptions in a row"),
                    HasSubstr("mpsd ended while the job ran")));
  EXPECT_THAT(exported_metrics_.ended, Contains(id));
  Start();
}

TEST_F(SchedulerBlameTest, ANewCheckpointEndsARowOfInterruptions) {
  const std::string id = Submit();
  for (int round = 1; round <= 20; ++round) {
    clock_.Advance(absl::Minutes(1));
    ASSERT_EQ(Next(), id);
    if (round % 3 == 0) {
      Worker().OnCheckpoint(At(round, "/step-" + std::to_string(round)));
    }
    KillAndRestart();
    ASSERT_EQ(StateOf(id), State::kQueued);
    ASSERT_EQ(Stored(id).interruptions, round % 3);
  }
}

TEST_F(SchedulerBlameTest, AnUnreportedCheckpointCountsToo) {
  const std::string id = Submit();
  for (int round = 1; round <= 12; ++round) {
    clock_.Advance(absl::Minutes(1));
    ASSERT_EQ(Next(), id);
    clock_.Advance(absl::Seconds(1));
    // A worker outlived its daemon and wrote one: the next resumes from there.
    Worker().OnProgress(Step(round * 10 + 1));
    KillAndRestart();
    ASSERT_EQ(StateOf(id), State::kQueued);
    ASSERT_EQ(Stored(id).interruptions, 1);
  }
  for (int round = 2; round <= 4; ++round) {
    After(absl::Minutes(1));
    clock_.Advance(absl::Seconds(1));
    Worker().OnProgress(Step(121));  // the same again
    KillAndRestart();
    ASSERT_EQ(Stored(id).interruptions, round);
  }
}

class SchedulerPressureTest : public SchedulerFixture {
 protected:
  SchedulerPressureTest() {
    pause_.memory_pressure = host::MemoryPressure::kCritical;
    machine_.reading.memory_pressure = host::MemoryPressure::kNormal;
    host_ = &machine_;
    Restart();
  }

  // The job that runs makes pressure, is returned, and it is over.
  void Press() {
    machine_.reading.memory_pressure = host::MemoryPressure::kCritical;
    After(absl::Seconds(5));
    After(absl::Minutes(1));
    launcher_.Exit(ExitReason::kPreempted, "stopped at a checkpoint");
    machine_.reading.memory_pressure = host::MemoryPressure::kNormal;
    After(absl::Seconds(5));
    After(absl::Minutes(11));
  }
};

TEST_F(SchedulerPressureTest, SelfMadePressureStarvesNoJob) {
  const std::string large = Submit(), small = Submit();
  After(absl::Seconds(5));
  ASSERT_EQ(Running(), large);
  Press();
  EXPECT_EQ(Stored(large).exit_reason, ExitReason::kInterrupted);
  EXPECT_EQ(Stored(large).interruptions, 1);
  EXPECT_EQ(Running(), small);
  launcher_.Exit(ExitReason::kDone);
  After(absl::Seconds(5));
  for (int count = 2; count <= 5; ++count) {
    ASSERT_EQ(Running(), large) << count;
    Press();
    ASSERT_EQ(Stored(large).interruptions, count);
  }
  EXPECT_EQ(StateOf(large), State::kFailed);
  EXPECT_EQ(Stored(large).failures, 0);
}

using SchedulerRetryTest = SchedulerShareFixture;

TEST_F(SchedulerRetryTest, ASucceededJobRunsAgainFromScratchAlone) {
  const std::string id = Start();
  Worker().OnCheckpoint(At(10, "/state/c10"));
  Worker().OnProgress(Step(100));
  End(ExitReason::kDone);
  EXPECT_THAT(scheduler_->Retry(id, false),
              Fails(kFailedPrecondition, AllOf(HasSubstr("is SUCCEEDED"),
                                               HasSubstr("--from-scratch"))));
  const auto job = Ok(scheduler_->Retry(id, true));
  EXPECT_EQ(job.state, State::kQueued);
  EXPECT_EQ(job.output_path, "");
  EXPECT_EQ(job.progress, std::nullopt);
  EXPECT_EQ(job.eval_loss_after, std::nullopt);
  EXPECT_EQ(job.durable_step, 0);
  EXPECT_THAT(files_.removed_runs, ElementsAre(id));
  EXPECT_THAT(*store_.Checkpoints(id), IsEmpty());
  EXPECT_THAT(scheduler_->Retry(id, true),
              Fails(kFailedPrecondition, "is QUEUED"));
  EXPECT_EQ(Next(), id);
  EXPECT_FALSE(Stored(id).fresh);
  launcher_.Exit(ExitReason::kDone);
  EXPECT_EQ(StateOf(id), State::kSucceeded);
}

// mpsd is killed when the row is stored and nothing is removed yet.
TEST_F(SchedulerRetryTest, WhatAKillLeftIsRemovedBeforeTheStart) {
  const std::string id = Start();
  Worker().OnCheckpoint(At(10, "/state/c10"));
  End(ExitReason::kDone);
  files_.on_remove_run = [&] {
    files_.failure = absl::InternalError("killed");
  };
  ASSERT_TRUE(scheduler_->Retry(id, true).ok());
  files_.on_remove_run = nullptr;
  files_.failure = absl::OkStatus();
  KillAndRestart();
  EXPECT_THAT(*store_.Checkpoints(id), SizeIs(1));
  EXPECT_EQ(Next(), id);
  EXPECT_THAT(files_.removed_runs, ElementsAre(id));
  EXPECT_THAT(*store_.Checkpoints(id), IsEmpty());
  EXPECT_EQ(Stored(id).durable_step, 0);
}

TEST_F(SchedulerRetryTest, AJobWhoseLeftoversStayWaitsForThatAlone) {
  const std::string id = Submit();
  RunToEnd(id, ExitReason::kDone);
  files_.failure = absl::PermissionDeniedError("not yours");
  ASSERT_TRUE(scheduler_->Retry(id, true).ok());
  EXPECT_EQ(Next(), "");
  EXPECT_THAT(board_->HoldOf(id), HasSubstr("cannot be removed: not yours"));
  files_.failure = absl::OkStatus();
  clock_.Advance(absl::Seconds(10));
  EXPECT_EQ(Next(), id);
}

TEST_F(SchedulerRetryTest, ARunningJobReturnsToTheQueueAndResumes) {
  const std::string first = Submit(), second = Submit();
  scheduler_->Tick();
  ASSERT_TRUE(scheduler_->Retry(first, false).ok());
  ASSERT_TRUE(scheduler_->Retry(first, false).ok());
  EXPECT_EQ(launcher_.preempted, 1);
  launcher_.Exit(ExitReason::kPreempted, "at a checkpoint");
  EXPECT_EQ(StateOf(first), State::kQueued);
  EXPECT_THAT(Stored(first).message, HasSubstr("as requested"));
  EXPECT_EQ(Next(), first);
  EXPECT_THAT(files_.removed_runs, IsEmpty());
}

TEST_F(SchedulerRetryTest, ARunningJobBeginsFromScratchHoweverItEnds) {
  for (const ExitReason reason :
       {ExitReason::kPreempted, ExitReason::kDone, ExitReason::kCrashed,
        ExitReason::kRejected, ExitReason::kMachine}) {
    SCOPED_TRACE(std::string(Name(reason)));
    const std::string id = Start();
    Worker().OnCheckpoint(At(10, absl::StrCat("/state/", id)));
    Worker().OnProgress(Step(12));
    ASSERT_TRUE(scheduler_->Retry(id, true).ok());
    launcher_.Exit(reason);
    EXPECT_EQ(StateOf(id), State::kQueued);
    EXPECT_EQ(Stored(id).progress, std::nullopt);
    EXPECT_EQ(Stored(id).output_path, "");
    clock_.Advance(absl::Minutes(2));
    EXPECT_EQ(Next(), id);
    EXPECT_EQ(files_.removed_runs.back(), id);
    EXPECT_THAT(*store_.Checkpoints(id), IsEmpty());
    launcher_.Exit(ExitReason::kDone);
    EXPECT_EQ(StateOf(id), State::kSucceeded);
    scheduler_->Tick();
  }
}

TEST_F(SchedulerRetryTest, TheWishToBeginAnewOutlivesTheDaemon) {
  const std::string id = Start();
  Worker().OnCheckpoint(At(10, "/state/c10"));
  ASSERT_TRUE(scheduler_->Retry(id, true).ok());
  KillAndRestart();
  EXPECT_EQ(StateOf(id), State::kQueued);
  EXPECT_EQ(Next(), id);
  EXPECT_THAT(files_.removed_runs, ElementsAre(id));
}

TEST_F(SchedulerRetryTest, ProgressCountsFromTheCheckpoint) {
  for (const int64_t saved : {0, 10}) {
    const std::string id = Start();
    Worker().OnProgress(Step(1));
    if (saved > 0) Worker().OnCheckpoint(At(saved, "/state/c10"));
    Progress last = Step(12);
    last.epoch = 1.2;
    Worker().OnProgress(last);
    End(ExitReason::kCancelled);
    EXPECT_EQ(Stored(id).progress->step, 12);
    const Job job = Ok(scheduler_->Retry(id));
    EXPECT_EQ(job.progress->step, saved);
    EXPECT_DOUBLE_EQ(job.progress->epoch, static_cast<double>(saved) / 10);
    EXPECT_DOUBLE_EQ(job.progress->eta_seconds,
                     0.5 * static_cast<double>(100 - saved));
    ASSERT_TRUE(scheduler_->Cancel(id).ok());
  }
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
  const std::string id = Start();
  ASSERT_TRUE(scheduler_->Retry(id, true).ok());
  ASSERT_TRUE(scheduler_->Cancel(id).ok());
  EXPECT_TRUE(
      absl::IsFailedPrecondition(scheduler_->Retry(id, false).status()));
  launcher_.Exit(ExitReason::kCancelled);
  EXPECT_EQ(StateOf(id), State::kCancelled) << "the later word counts";
}

TEST_F(SchedulerRetryTest, FilesThatChangedSinceSubmitAreWarnedOf) {
  files_.stamps["/data/train.jsonl"] = "a";
  files_.stamps["/models/tiny"] = "m";
  const std::string id = Submit();
  RunToEnd(id, ExitReason::kDone);
  EXPECT_THAT(store_.Get(id)->warnings, IsEmpty());
  const std::string changed = Submit();
  files_.stamps["/models/tiny"] = "n";
  RunToEnd(changed, ExitReason::kDone);
  EXPECT_THAT(store_.Get(changed)->warnings,
              ElementsAre(HasSubstr("model: files changed after the job was "
                                    "submitted")));
}

TEST_F(SchedulerRetryTest, NothingGoesThatIsPinnedOrNeeded) {
  const std::string id = Submit();
  RunToEnd(id, ExitReason::kDone);
  files_.paths.insert(absl::StrCat("/state/jobs/", id, "/out/adapter"));
  SubmitRequest request = Request();
  request.spec_json = absl::StrCat(
      R"({"model": "org/tiny", "dataset": {"train": "/data/train.jsonl"}, )",
      R"("adapter": "/state/jobs/)", id, R"(/out/adapter"})");
  const auto user = Ok(scheduler_->Submit(request));
  EXPECT_THAT(scheduler_->Retry(id, true),
              Fails(kFailedPrecondition, user.job.id));
  ASSERT_TRUE(scheduler_->Cancel(user.job.id).ok());
  ASSERT_TRUE(scheduler_->remover().SetPinned(id, true).ok());
  EXPECT_THAT(scheduler_->Retry(id, true),
              Fails(kFailedPrecondition, "--unpin`"));
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

class SchedulerPauseTest : public SchedulerFixture {
 protected:
  SchedulerPauseTest() {
    pause_.memory_pressure = MemoryPressure::kCritical;
    pause_.settle = absl::Seconds(30);
    pause_.hold_limit = absl::Minutes(10);
    machine_.reading.memory_pressure = MemoryPressure::kNormal;
    PauseOnBattery();
  }
};

TEST_F(SchedulerPauseTest, AJobIsHeldAndResumes) {
  const std::string id = Start();
  Unplug();
  EXPECT_EQ(launcher_.paused, 1);
  EXPECT_EQ(StateOf(id), State::kRunning);
  EXPECT_THAT(exported_metrics_.paused, ElementsAre(PauseReason::kBattery));
  Pause pause = board_->PauseOf(id);
  EXPECT_THAT(pause.reasons, ElementsAre(PauseReason::kBattery));
  EXPECT_FALSE(pause.held) << "the worker has not said so";
  EXPECT_EQ(pause.since, clock_.Now());
  Worker().OnProgress(Step(1));
  EXPECT_FALSE(Stored(id).progress.has_value());
  Worker().OnHeld();
  EXPECT_EQ(Stored(id).progress->step, 1) << "what is shown is where it holds";
  EXPECT_TRUE(board_->PauseOf(id).held);
  EXPECT_TRUE(board_->Info().pause.held);
  After(absl::Seconds(60));
  EXPECT_EQ(launcher_.paused, 1);

  PlugIn();
  EXPECT_EQ(launcher_.resumed, 0) << "it may have been a loose plug";
  After(absl::Seconds(30));
  EXPECT_EQ(launcher_.resumed, 1);
  Worker().OnResumed();
  EXPECT_EQ(board_->PauseOf(id), Pause());
  EXPECT_THAT(exported_metrics_.halting, ElementsAre(true, false));
  EXPECT_THAT(exported_metrics_.paused, IsEmpty());
  EXPECT_THAT(Notes(id), ElementsAre("paused: on battery or in Low Power Mode",
                                     "resumed after 1m35s"));
  launcher_.Exit(ExitReason::kDone);
  EXPECT_EQ(StateOf(id), State::kSucceeded);
}

// The worker's Held crosses the scheduler's Resume: the worker halted all the
// same.
TEST_F(SchedulerPauseTest, AHaltThatIsReportedLateIsPassedOn) {
  Start();
  Unplug();
  PlugIn();
  After(absl::Seconds(30));
  Worker().OnHeld();
  Worker().OnResumed();
  EXPECT_THAT(exported_metrics_.halting, ElementsAre(true, false));
}

TEST_F(SchedulerPauseTest, ALongPauseGivesTheMemoryBack) {
  const std::string id = Start();
  Unplug();
  Worker().OnHeld();
  After(absl::Minutes(10) - absl::Seconds(1));
  EXPECT_EQ(launcher_.preempted, 0);
  After(absl::Seconds(5));
  EXPECT_EQ(launcher_.preempted, 1);
  After(absl::Seconds(5));
  EXPECT_EQ(launcher_.preempted, 1) << "asked once";
  launcher_.Exit(ExitReason::kPreempted, "stopped at a checkpoint");
  After(absl::Seconds(5));
  EXPECT_EQ(StateOf(id), State::kQueued);
  EXPECT_EQ(Stored(id).failures, 0);
  EXPECT_FALSE(Stored(id).runs_last);
  EXPECT_EQ(Stored(id).message,
            "paused (on battery or in Low Power Mode), resumes by itself: "
            "stopped at a checkpoint");
  EXPECT_THAT(board_->PauseOf(id).reasons, ElementsAre(PauseReason::kBattery));

  PlugIn();
  After(absl::Seconds(30));
  EXPECT_EQ(Running(), id);
  EXPECT_EQ(Stored(id).attempt, 2);
  EXPECT_EQ(launcher_.paused, 1);
}

TEST_F(SchedulerPauseTest, NothingStartsDuringAPause) {
  machine_.reading.power_source = PowerSource::kBattery;
  const std::string id = Submit();
  EXPECT_EQ(scheduler_->Tick(), clock_.Now() + absl::Seconds(5));
  EXPECT_THAT(launcher_.requests, IsEmpty());
  EXPECT_THAT(board_->PauseOf(id).reasons, ElementsAre(PauseReason::kBattery));
  EXPECT_THAT(board_->Info().pause.reasons, ElementsAre(PauseReason::kBattery));
  PlugIn();
  EXPECT_EQ(Running(), "");
  After(absl::Seconds(30));
  EXPECT_EQ(Running(), id);
}

TEST_F(SchedulerPauseTest, ACancelledJobIsLeftAlone) {
  const std::string id = Start();
  ASSERT_TRUE(scheduler_->Cancel(id).ok());
  Unplug();
  EXPECT_EQ(launcher_.paused, 0);
}

TEST_F(SchedulerPauseTest, APausedJobCanBeCancelledAndDrained) {
  const std::string id = Start();
  Unplug();
  Worker().OnHeld();
  ASSERT_TRUE(scheduler_->Cancel(id).ok());
  EXPECT_EQ(launcher_.cancelled, 1);
  launcher_.Exit(ExitReason::kCancelled);
  EXPECT_EQ(StateOf(id), State::kCancelled);

  PlugIn();
  After(absl::Seconds(30));
  const std::string other = Start();
  Unplug();
  scheduler_->Drain();
  EXPECT_EQ(launcher_.preempted, 1);
  launcher_.Exit(ExitReason::kPreempted);
  EXPECT_EQ(StateOf(other), State::kQueued);
}

TEST_F(SchedulerPauseTest, TheMachineStaysAwakeWhileAJobTrains) {
  EXPECT_EQ(machine_.awake, 0);
  const std::string id = Start();
  EXPECT_EQ(machine_.awake, 1);
  EXPECT_THAT(machine_.reasons, ElementsAre("mpsd trains job " + id));
  Unplug();
  EXPECT_EQ(machine_.awake, 1) << "the step is not over";
  Worker().OnHeld();
  EXPECT_EQ(machine_.awake, 0);
  PlugIn();
  After(absl::Seconds(30));
  EXPECT_EQ(machine_.awake, 1);
  launcher_.Exit(ExitReason::kDone);
  EXPECT_EQ(machine_.awake, 0);
}

TEST_F(SchedulerPauseTest, AnOperatorOnTheCpuIsAnEventOnce) {
  const std::string id = Start();
  Progress step = Step(1);
  step.cpu_fallback_ops = {{"aten::a", 1}};
  Worker().OnProgress(step);
  step = Step(2);
  step.cpu_fallback_ops = {{"aten::a", 2}, {"aten::b", 1}};
  Worker().OnProgress(step);
  After(absl::Seconds(5));
  EXPECT_THAT(Notes(id),
              ElementsAre("no Metal kernel, runs on the CPU: aten::a",
                          "no Metal kernel, runs on the CPU: aten::b"));
  EXPECT_EQ(Stored(id).progress->cpu_fallback_ops, step.cpu_fallback_ops);
}

TEST_F(SchedulerPauseTest, AJobOptsInToTheCpu) {
  SubmitRequest request = Request();
  request.spec_json = R"({"model": "org/tiny", "allow_cpu_fallback": true,
                          "dataset": {"train": "/data/train.jsonl"}})";
  ASSERT_TRUE(scheduler_->Submit(request).ok());
  scheduler_->Tick();
  ASSERT_THAT(launcher_.requests, SizeIs(1));
  EXPECT_TRUE(launcher_.requests[0].allow_cpu_fallback);
  launcher_.Exit(ExitReason::kDone);
  Start();
  EXPECT_FALSE(launcher_.requests[1].allow_cpu_fallback);
}

using SchedulerShareTest = SchedulerShareFixture;

TEST_F(SchedulerShareTest, AJobKnowsHowLongItHeldTheDevice) {
  const std::string id = StartFor("ann");
  After(absl::Seconds(90));
  EXPECT_EQ(Stored(id).device_time, absl::Seconds(90))
      << "stored though its worker says nothing";
  clock_.Advance(absl::Seconds(10));
  launcher_.Exit(ExitReason::kCrashed);
  EXPECT_EQ(Stored(id).device_time, absl::Seconds(100));
  After(absl::Seconds(10));
  ASSERT_EQ(Next(), id);
  clock_.Advance(absl::Seconds(5));
  launcher_.Exit(ExitReason::kDone);
  EXPECT_EQ(Stored(id).device_time, absl::Seconds(105))
      << "all attempts, and not the wait between them";
}

TEST_F(SchedulerShareTest, TheRunningJobsUseCountsAsItRuns) {
  const std::string first = SubmitFor("ann"), second = SubmitFor("ann"),
                    other = SubmitFor("bob");
  EXPECT_THAT(Order(), ElementsAre(first, second, other));
  scheduler_->Tick();
  EXPECT_THAT(Order(), ElementsAre(first, second, other));
  After(absl::Minutes(2));
  EXPECT_THAT(Order(), ElementsAre(first, other, second));
  EXPECT_NEAR(Used("ann"), 120, 1);
  EXPECT_EQ(board_->QueuePosition(second), 1);
}

TEST_F(SchedulerShareTest, WithoutAHalfLifeItIsFirstComeFirstServed) {
  half_life_ = absl::ZeroDuration();
  Restart();
  const std::string first = SubmitFor("ann"), second = SubmitFor("ann"),
                    other = SubmitFor("bob");
  scheduler_->Tick();
  After(absl::Hours(2));
  EXPECT_THAT(Order(), ElementsAre(first, second, other));
  EXPECT_EQ(Stored(first).device_time, absl::Hours(2));
  EXPECT_THAT(*store_.OwnerUses(), IsEmpty());
}

TEST_F(SchedulerShareTest, WhatWasUsedSurvivesAKill) {
  const std::string first = SubmitFor("ann"), second = SubmitFor("ann"),
                    other = SubmitFor("bob");
  scheduler_->Tick();
  clock_.Advance(absl::Minutes(30));
  Worker().OnProgress(Step(1));  // stored
  clock_.Advance(absl::Minutes(10));
  KillAndRestart();
  EXPECT_EQ(Stored(first).device_time, absl::Minutes(30))
      << "until the last stored progress";
  EXPECT_NEAR(Used("ann"), 1800 * std::exp2(-10.0 / (24 * 60)), 1e-3);
  EXPECT_EQ(board_->QueuePosition(other), 0);
  EXPECT_EQ(board_->QueuePosition(second), 1);
}

TEST_F(SchedulerShareTest, TheRowAndItsOwnersUseAreStoredTogether) {
  const std::string id = StartFor("ann");
  db_->FillDisk();
  After(absl::Minutes(3));
  EXPECT_THAT(*store_.OwnerUses(), IsEmpty());
  db_->FreeDisk();
  After(absl::Minutes(3));
  ASSERT_THAT(*store_.OwnerUses(), SizeIs(1));
  EXPECT_NEAR((*store_.OwnerUses())[0].seconds,
              absl::ToDoubleSeconds(Stored(id).device_time), 1);
  EXPECT_EQ(Stored(id).device_time, absl::Minutes(6)) << "nothing is lost";
}

TEST_F(SchedulerShareTest, NoJumpOfTheWallClockChargesOrForgets) {
  const std::string id = StartFor("ann");
  After(absl::Minutes(30));
  clock_.SetBack(absl::Hours(-24 * 365));  // a year on
  After(absl::Minutes(2));
  EXPECT_EQ(Stored(id).device_time, absl::Minutes(32));
  EXPECT_NEAR(Used("ann"), 32 * 60, 3);
  clock_.SetBack(absl::Hours(2 * 24 * 365));
  After(absl::Minutes(2));
  EXPECT_EQ(Stored(id).device_time, absl::Minutes(34));
  EXPECT_NEAR(Used("ann"), 34 * 60, 6);
  KillAndRestart();
  EXPECT_NEAR(Used("ann"), 34 * 60, 6);
}

TEST_F(SchedulerShareTest, APauseIsNotCharged) {
  pause_.settle = absl::ZeroDuration();
  PauseOnBattery();
  const std::string id = StartFor("ann");
  After(absl::Minutes(2));
  After(absl::Seconds(55));
  Unplug();
  EXPECT_EQ(launcher_.paused, 1);
  clock_.Advance(absl::Seconds(10));
  Worker().OnHeld();
  After(absl::Minutes(5));
  After(absl::Seconds(5));
  PlugIn();
  EXPECT_EQ(launcher_.resumed, 1);
  Worker().OnResumed();
  After(absl::Minutes(4));
  EXPECT_EQ(Stored(id).device_time, absl::Minutes(7) + absl::Seconds(10));
}

class JobTimeTest : public SchedulerShareFixture {
 protected:
  JobTimeTest() {
    time_limit_ = [this](const std::string& owner) {
      return owner == "boss" ? absl::InfiniteDuration() : limit_;
    };
    Restart();
  }
  absl::Duration limit_ = absl::Hours(2);
};

TEST_F(JobTimeTest, AJobThatHeldTheDeviceForSoLongHasFailed) {
  const std::string id = SubmitFor("ann");
  EXPECT_LE(scheduler_->Tick(), clock_.Now() + absl::Minutes(1));
  Worker().OnProgress(Step(1, 100'000));
  After(absl::Hours(1));
  EXPECT_EQ(launcher_.preempted, 0);
  clock_.Advance(absl::Hours(1) - absl::Seconds(3));
  EXPECT_LE(scheduler_->Tick(), clock_.Now() + absl::Seconds(3));
  EXPECT_EQ(launcher_.preempted, 0);
  After(absl::Seconds(3));
  EXPECT_EQ(launcher_.preempted, 1);
  After(absl::Seconds(10));
  EXPECT_EQ(launcher_.preempted, 1) << "asked once";
  Worker().OnCheckpoint(At(50, "/out/step-50"));
  launcher_.Exit(ExitReason::kPreempted, "stopped at a checkpoint");
  const Job job = Stored(id);
  EXPECT_EQ(job.state, State::kFailed);
  EXPECT_EQ(job.exit_reason, ExitReason::kTimeLimit);
  EXPECT_EQ(job.attempt, 1);
  EXPECT_THAT(job.message, AllOf(HasSubstr("held the device for 2h"),
                                 HasSubstr("each job of ann may for 2h"),
                                 HasSubstr("[user.ann] job-hours"),
                                 HasSubstr("mpsctl retry " + id),
                                 HasSubstr("stopped at a checkpoint")));
  EXPECT_THAT(exported_metrics_.exits, ElementsAre(ExitReason::kTimeLimit));
}

TEST_F(JobTimeTest, TheLimitComesWhileTheClockRuns) {
  StartFor("ann");
  clock_.Flow(absl::Microseconds(1));
  After(absl::Hours(2));
  EXPECT_EQ(launcher_.preempted, 1);
  EXPECT_GT(scheduler_->Tick(), clock_.Now()) << "no tick follows at once";
}

TEST_F(JobTimeTest, ARetryResumesOnceTheLimitIsRaised) {
  const std::string id = StartFor("ann");
  After(absl::Hours(2));
  End(ExitReason::kPreempted);
  EXPECT_THAT(scheduler_->Retry(id),
              Fails(absl::StatusCode::kResourceExhausted, "job-hours"));
  limit_ = absl::Hours(3);
  ASSERT_TRUE(scheduler_->Retry(id).ok());
  EXPECT_EQ(Next(), id);
  After(absl::Minutes(59));
  EXPECT_EQ(launcher_.preempted, 1);
  After(absl::Minutes(1));
  EXPECT_EQ(launcher_.preempted, 2) << "three hours of all attempts";
}

TEST_F(JobTimeTest, ALoweredLimitEndsAJobThatWaits) {
  const std::string id = StartFor("ann");
  clock_.Advance(absl::Minutes(90));
  launcher_.Exit(ExitReason::kCrashed);
  const std::string other = SubmitFor("bob");
  limit_ = absl::Hours(1);
  After(absl::Seconds(10));
  ASSERT_EQ(Next(), other);
  End(ExitReason::kDone);
  EXPECT_EQ(StateOf(id), State::kFailed);
  EXPECT_EQ(Stored(id).exit_reason, ExitReason::kTimeLimit);
  EXPECT_THAT(exported_metrics_.ended, Contains(id));
  EXPECT_THAT(launcher_.requests, SizeIs(2));
}

TEST_F(JobTimeTest, AJobWithoutTimeWaitsForAStoreThatTakesNothing) {
  const std::string id = StartFor("ann");
  clock_.Advance(absl::Minutes(90));
  End(ExitReason::kCrashed);
  limit_ = absl::Hours(1);
  db_->FillDisk();
  clock_.Advance(absl::Seconds(10));
  EXPECT_EQ(scheduler_->Tick(), clock_.Now() + absl::Seconds(1));
  EXPECT_EQ(StateOf(id), State::kQueued);
  db_->FreeDisk();
  scheduler_->Tick();
  EXPECT_EQ(StateOf(id), State::kFailed);
}

TEST_F(JobTimeTest, TheLimitMayDifferByOwner) {
  StartFor("boss");
  After(absl::Hours(1000));
  EXPECT_EQ(launcher_.preempted, 0);
}

TEST_F(JobTimeTest, AJobThatIsDoneInTimeHasSucceeded) {
  const std::string id = StartFor("ann");
  After(absl::Hours(2));
  ASSERT_EQ(launcher_.preempted, 1);
  launcher_.Exit(ExitReason::kDone);
  EXPECT_EQ(StateOf(id), State::kSucceeded);
}

TEST_F(JobTimeTest, ADrainGoesBeforeTheLimit) {
  const std::string id = StartFor("ann");
  After(absl::Hours(2));
  scheduler_->Drain();
  launcher_.Exit(ExitReason::kPreempted);
  EXPECT_EQ(StateOf(id), State::kQueued);
  scheduler_->Tick();
  Restart();
  ASSERT_TRUE(scheduler_->Recover().ok());
  scheduler_->Tick();
  EXPECT_EQ(StateOf(id), State::kFailed) << "no attempt is wasted";
  EXPECT_EQ(Stored(id).attempt, 1);
}

TEST_F(JobTimeTest, ANewLimitCountsForTheRunningJob) {
  StartFor("ann");
  After(absl::Hours(1));
  limit_ = absl::Minutes(30);
  scheduler_->Tick();
  EXPECT_EQ(launcher_.preempted, 1);
}

TEST_F(JobTimeTest, AChallengerWithoutTimeTakesNothing) {
  const std::string high = StartFor("bob", 5);
  clock_.Advance(absl::Minutes(90));
  launcher_.Exit(ExitReason::kCrashed);
  limit_ = absl::Hours(1);
  const std::string low = LongAtWork();
  EXPECT_EQ(launcher_.preempted, 0);
  EXPECT_EQ(Running(), low);
  EXPECT_EQ(StateOf(high), State::kQueued);
}

using SchedulerPreemptionTest = SchedulerShareFixture;

TEST_F(SchedulerPreemptionTest, AHigherPriorityTakesTheDevice) {
  const std::string low = LongAtWork();
  const std::string high = Challenge();
  EXPECT_EQ(launcher_.preempted, 1);
  EXPECT_EQ(Running(), low) << "until it has written its checkpoint";
  EXPECT_THAT(Notes(low), Contains("gives way to job " + high +
                                   " of priority 5; saving a checkpoint"));
  EXPECT_THAT(Notes(high),
              Contains("takes the device from job " + low +
                       " of priority 0, once that job has written a "
                       "checkpoint"));
  After(absl::Seconds(30));
  EXPECT_EQ(launcher_.preempted, 1) << "asked once";
  Worker().OnCheckpoint(At(20, "/out/step-20"));
  launcher_.Exit(ExitReason::kPreempted, "stopped at a checkpoint");
  EXPECT_EQ(StateOf(low), State::kQueued);
  EXPECT_EQ(Stored(low).exit_reason, ExitReason::kPreempted);
  EXPECT_EQ(Stored(low).failures, 0);
  EXPECT_EQ(Stored(low).interruptions, 0);
  EXPECT_FALSE(Stored(low).runs_last);
  EXPECT_EQ(Stored(low).message,
            "gives way to job " + high +
                " of priority 5, resumes by itself: stopped at a checkpoint");
  EXPECT_THAT(exported_metrics_.returned, ElementsAre(ExitReason::kPreempted));
  EXPECT_EQ(Next(), high);
  RunFor(absl::Minutes(1));
  EXPECT_EQ(Running(), low);
}

TEST_F(SchedulerPreemptionTest, TheLeastRunIsLeftToEachAttempt) {
  const std::string low = LongAtWork();
  Challenge();
  End(ExitReason::kPreempted);
  RunFor(absl::Minutes(1));
  ASSERT_EQ(Running(), low);
  const std::string next = Challenge();
  EXPECT_EQ(launcher_.preempted, 1) << "it has just begun again";
  After(absl::Minutes(1));
  EXPECT_EQ(launcher_.preempted, 1) << "it still loads";
  Worker().OnProgress(Step(21, 100'000));
  const absl::Time again = scheduler_->Tick();
  EXPECT_LE(again, clock_.Now() + absl::Seconds(1)) << "a job waits";
  EXPECT_EQ(launcher_.preempted, 1);
  After(absl::Minutes(4));
  EXPECT_EQ(launcher_.preempted, 2);
  launcher_.Exit(ExitReason::kPreempted);
  EXPECT_EQ(Next(), next);
}

TEST_F(SchedulerPreemptionTest, AJobThatIsHeldBackTakesNothing) {
  const std::string low = LongAtWork();
  const std::string away = SubmitFor("bob", 5);
  files_.paths.clear();
  scheduler_->Tick();
  EXPECT_EQ(launcher_.preempted, 0) << "its file is away";
  files_.paths = {"/data/train.jsonl"};
  scheduler_->Tick();
  EXPECT_EQ(launcher_.preempted, 0) << "looked at again a little later";
  After(absl::Seconds(30));
  EXPECT_EQ(launcher_.preempted, 1);
  EXPECT_THAT(Notes(low), Contains(HasSubstr(away)));
}

TEST_F(SchedulerPreemptionTest, AJobBeforeItsTimeTakesNothing) {
  preemption_.least_run = absl::ZeroDuration();
  Restart();
  const std::string high = StartFor("bob", 5);
  launcher_.Exit(ExitReason::kCrashed);  // tried again in 10 s
  StartFor("ann");
  Worker().OnProgress(Step(1, 100'000));
  const absl::Time again = scheduler_->Tick();
  EXPECT_EQ(launcher_.preempted, 0);
  EXPECT_LE(again, *Stored(high).not_before);
  After(absl::Seconds(10));
  EXPECT_EQ(launcher_.preempted, 1);
}

TEST_F(SchedulerPreemptionTest, NothingIsTakenWhileNoJobMayTrain) {
  PauseOnBattery();
  LongAtWork();
  SubmitFor("bob", 5);
  Unplug();
  EXPECT_EQ(launcher_.paused, 1);
  EXPECT_EQ(launcher_.preempted, 0);
  Worker().OnHeld();
  After(absl::Minutes(1));
  EXPECT_EQ(launcher_.preempted, 0);
}

TEST_F(SchedulerPreemptionTest, NoPauseAsksAWorkerThatGivesWay) {
  PauseOnBattery();
  LongAtWork();
  Challenge();
  ASSERT_EQ(launcher_.preempted, 1);
  Unplug();
  EXPECT_EQ(launcher_.paused, 0);
}

TEST_F(SchedulerPreemptionTest, ADrainGoesBeforeAPreemption) {
  const std::string low = LongAtWork();
  Challenge();
  const absl::Duration patient = launcher_.preempt_grace;
  scheduler_->Drain();
  EXPECT_EQ(launcher_.preempted, 2);
  EXPECT_EQ(launcher_.preempt_grace, absl::Minutes(2));
  EXPECT_GE(patient, absl::Minutes(2));
  End(ExitReason::kPreempted, "stopped at a checkpoint");
  EXPECT_TRUE(scheduler_->Idle());
  EXPECT_EQ(Stored(low).message, "stopped at a checkpoint");
}

TEST_F(SchedulerPreemptionTest, ACancelGoesBeforeAPreemption) {
  const std::string low = LongAtWork();
  const std::string high = Challenge();
  ASSERT_TRUE(scheduler_->Cancel(low).ok());
  EXPECT_EQ(launcher_.cancelled, 1);
  launcher_.Exit(ExitReason::kCancelled);
  EXPECT_EQ(StateOf(low), State::kCancelled);
  EXPECT_EQ(Next(), high);
}

TEST_F(SchedulerPreemptionTest, IfTheOtherIsGoneTheJobContinues) {
  const std::string low = LongAtWork();
  const std::string high = Challenge();
  ASSERT_EQ(launcher_.preempted, 1);
  ASSERT_TRUE(scheduler_->Cancel(high).ok());
  launcher_.Exit(ExitReason::kPreempted);
  EXPECT_EQ(Next(), low);
}

// A worker stops between two steps: an hour's step is not thrown away, and a
// worker that never answers is killed in the end.
TEST_F(SchedulerPreemptionTest, TheWorkerGetsTheTimeOfItsSteps) {
  StartFor("ann");
  Progress slow = Step(1, 1000);
  slow.seconds = 3600;
  Worker().OnProgress(slow);
  After(absl::Minutes(6));
  Challenge();
  ASSERT_EQ(launcher_.preempted, 1);
  EXPECT_EQ(launcher_.preempt_grace, absl::Hours(3) + absl::Minutes(2));
}

TEST_F(SchedulerPreemptionTest, NoStepIsBelievedWithoutBound) {
  for (const double seconds :
       {1e300, -5.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    StartFor("ann");
    Progress odd = Step(1, 1000);
    odd.seconds = seconds;
    Worker().OnProgress(odd);
    odd = Step(2, 1'000'000);
    odd.seconds = seconds;
    Worker().OnProgress(odd);
    const std::string high = SubmitFor("bob", 5);
    After(absl::Minutes(6));
    EXPECT_LE(launcher_.preempt_grace, absl::Hours(24) + absl::Minutes(2));
    EXPECT_GE(launcher_.preempt_grace, absl::ZeroDuration());
    ASSERT_TRUE(scheduler_->Cancel(high).ok());
    End(ExitReason::kDone);
  }
}

TEST_F(SchedulerPreemptionTest, AKillDuringAPreemptionLosesNeither) {
  const std::string low = LongAtWork();
  Worker().OnCheckpoint(At(5, "/out/step-5"));
  const std::string high = Challenge();
  ASSERT_EQ(launcher_.preempted, 1);
  KillAndRestart();
  EXPECT_EQ(StateOf(low), State::kQueued);
  EXPECT_EQ(Next(), high);
  RunFor(absl::Minutes(1));
  EXPECT_EQ(Running(), low);
}

}  // namespace
}  // namespace mpsd::jobs
