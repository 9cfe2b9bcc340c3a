// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "server/jobs/scheduler.h"
#include "tests/server/jobs/scheduler_fixture.h"

namespace mpsd::jobs {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class SchedulerAttemptTest : public SchedulerFixture {};

TEST_F(SchedulerAttemptTest, NothingToDoTakesForever) {
  EXPECT_EQ(scheduler_->Tick(), absl::InfiniteFuture());
  EXPECT_TRUE(scheduler_->Idle());
}

TEST_F(SchedulerAttemptTest, RunsAJobFromStartToEnd) {
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

TEST_F(SchedulerAttemptTest, RemembersTheWorkerAndItsDevice) {
  Submit();
  scheduler_->Tick();
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

TEST_F(SchedulerAttemptTest, OneAtATimeInOrder) {
  const std::string low = Submit(-1), first = Submit(), second = Submit(),
                    high = Submit(1);
  for (const std::string& id : {high, first, second, low}) {
    scheduler_->Tick();
    EXPECT_EQ(Running(), id);
    scheduler_->Tick();
    EXPECT_EQ(Running(), id);
    EXPECT_EQ(launcher_.alive, 1);
    launcher_.Exit(ExitReason::kDone);
  }
}

TEST_F(SchedulerAttemptTest, ATakenDeviceIsNoFailure) {
  const std::string id = Submit();
  launcher_.ready = absl::UnavailableError("an old worker");
  EXPECT_EQ(scheduler_->Tick(), clock_.Now() + absl::Seconds(1));
  EXPECT_EQ(StateOf(id), State::kQueued);
  EXPECT_EQ(Stored(id).attempt, 0);
  EXPECT_EQ(board_->Info().hold, "an old worker");
  launcher_.ready = absl::OkStatus();
  scheduler_->Tick();
  EXPECT_EQ(Running(), id);
  EXPECT_EQ(board_->Info().hold, "");
}

TEST_F(SchedulerAttemptTest, TheNextAttemptKnowsHowSlowAStepIs) {
  Submit();
  scheduler_->Tick();
  EXPECT_EQ(launcher_.requests[0].slowest_step, absl::ZeroDuration());
  Progress slow = Step(1);
  slow.seconds = 900;
  Worker().OnProgress(slow);
  launcher_.Exit(ExitReason::kCrashed);
  clock_.Advance(absl::Seconds(10));
  scheduler_->Tick();
  scheduler_->Tick();
  ASSERT_THAT(launcher_.requests, SizeIs(2));
  EXPECT_EQ(launcher_.requests[1].slowest_step, absl::Minutes(15));
}

TEST_F(SchedulerAttemptTest, CrashesAreTriedAgainAfterAWait) {
  const std::string id = Submit();
  for (absl::Duration wait : {absl::Seconds(10), absl::Seconds(20)}) {
    scheduler_->Tick();
    ASSERT_EQ(Running(), id);
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
TEST_F(SchedulerAttemptTest, TheQueuesTimeIsKnownOnceEveryJobRan) {
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
  clock_.Advance(absl::Minutes(1));
  scheduler_->Tick();
  scheduler_->Tick();
  EXPECT_EQ(exported_metrics_.started.back().time_left,
            89 * absl::Seconds(0.5));
}

TEST_F(SchedulerAttemptTest, AnotherAttemptHasNoDeviceOfTheLast) {
  Submit();
  scheduler_->Tick();
  Worker().OnProgress(Step(1));
  launcher_.Exit(ExitReason::kCrashed);
  clock_.Advance(absl::Minutes(1));
  scheduler_->Tick();
  scheduler_->Tick();
  Worker().OnEvaluated({1, 2.5, 0, 0, {}});
  EXPECT_THAT(exported_metrics_.eval_devices, ElementsAre(""));
}

TEST_F(SchedulerAttemptTest, TellsTheStagesButNoBeat) {
  Submit();
  scheduler_->Tick();
  Worker().OnHeartbeat("loading model", 0.5);
  Worker().OnHeartbeat("", 0);
  Worker().OnHeartbeat("saving", 0);
  EXPECT_THAT(exported_metrics_.stages, ElementsAre("loading model", "saving"));
}

TEST_F(SchedulerAttemptTest, OthersRunWhileAJobWaits) {
  const std::string crashing = Submit();
  scheduler_->Tick();
  launcher_.Exit(ExitReason::kCrashed);
  const std::string other = Submit();
  scheduler_->Tick();
  EXPECT_EQ(Running(), other);
}

TEST_F(SchedulerAttemptTest, ProgressForgivesFailures) {
  const std::string id = Submit();
  for (int attempt = 1; attempt <= 10; ++attempt) {
    scheduler_->Tick();
    ASSERT_EQ(Running(), id);
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

TEST_F(SchedulerAttemptTest, UserErrorsAreFinal) {
  for (ExitReason reason : {ExitReason::kRejected, ExitReason::kOutOfMemory,
                            ExitReason::kNonFinite}) {
    const std::string id = Submit();
    scheduler_->Tick();
    launcher_.Exit(reason, "why");
    EXPECT_EQ(StateOf(id), State::kFailed);
    EXPECT_EQ(Stored(id).message, "why");
  }
}

TEST_F(SchedulerAttemptTest, CancellingARunningJobWaitsForItsWorker) {
  const std::string id = Submit();
  scheduler_->Tick();
  auto job = scheduler_->Cancel(id);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->state, State::kRunning);
  EXPECT_TRUE(job->cancel_requested);
  EXPECT_TRUE(Stored(id).cancel_requested);
  ASSERT_TRUE(scheduler_->Cancel(id).ok());
  EXPECT_EQ(launcher_.cancelled, 1);
  launcher_.Exit(ExitReason::kCancelled);
  EXPECT_EQ(StateOf(id), State::kCancelled);
  EXPECT_FALSE(Stored(id).cancel_requested);
  scheduler_->Tick();
  EXPECT_TRUE(scheduler_->Idle());
}

TEST_F(SchedulerAttemptTest, ACancelledJobMayBeDoneBeforeItHears) {
  const std::string id = Submit();
  scheduler_->Tick();
  ASSERT_TRUE(scheduler_->Cancel(id).ok());
  launcher_.Exit(ExitReason::kDone);
  EXPECT_EQ(StateOf(id), State::kSucceeded);
}

TEST_F(SchedulerAttemptTest, ACancelAfterACrashFindsTheQueuedJob) {
  const std::string id = Submit();
  scheduler_->Tick();
  launcher_.Exit(ExitReason::kCrashed);
  EXPECT_EQ(scheduler_->Cancel(id)->state, State::kCancelled);
  scheduler_->Tick();
  clock_.Advance(absl::Hours(1));
  scheduler_->Tick();
  EXPECT_EQ(Running(), "");
}

TEST_F(SchedulerAttemptTest, DrainBringsTheRunningJobBack) {
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

TEST_F(SchedulerAttemptTest, DrainLeavesACancelledJobAlone) {
  const std::string id = Submit();
  scheduler_->Tick();
  ASSERT_TRUE(scheduler_->Cancel(id).ok());
  scheduler_->Drain();
  EXPECT_EQ(launcher_.preempted, 0);
  launcher_.Exit(ExitReason::kCancelled);
  EXPECT_EQ(StateOf(id), State::kCancelled);
}

TEST_F(SchedulerAttemptTest, DestroyingKillsTheWorkerAndRequeues) {
  const std::string id = Submit();
  scheduler_->Tick();
  scheduler_.reset();
  EXPECT_EQ(launcher_.alive, 0);
  EXPECT_EQ(StateOf(id), State::kQueued);
}

TEST_F(SchedulerAttemptTest, QuickStepsShareATransaction) {
  const std::string id = Submit();
  scheduler_->Tick();
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

TEST_F(SchedulerAttemptTest, AStepHeldBackIsWrittenByTick) {
  const std::string id = Submit();
  scheduler_->Tick();
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

TEST_F(SchedulerAttemptTest, CheckpointsAreListedAndTheRemovedOnesGo) {
  const std::string id = Submit();
  scheduler_->Tick();
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

TEST_F(SchedulerAttemptTest, AWarningIsStoredAndWatched) {
  const std::string id = Submit();
  scheduler_->Tick();
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

TEST_F(SchedulerAttemptTest, WatchersAreWoken) {
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

TEST_F(SchedulerAttemptTest, AFullDiskDelaysTheEndButLosesNothing) {
  const std::string id = Submit();
  scheduler_->Tick();
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

TEST_F(SchedulerAttemptTest, ACheckpointTheStoreRefusesHoldsNobody) {
  const std::string id = Submit();
  scheduler_->Tick();
  Worker().OnCheckpoint(At(-1, "/step--1"));
  Worker().OnCheckpoint(At(1, "/step-1"));
  EXPECT_EQ(board_->Info().hold, "");
  ASSERT_THAT(*board_->Checkpoints(id), SizeIs(1));
  launcher_.Exit(ExitReason::kDone);
  scheduler_->Tick();
  EXPECT_TRUE(scheduler_->Idle());
}

TEST_F(SchedulerAttemptTest, AStartThatIsNotStoredIsNoStart) {
  const std::string id = Submit();
  store_.FailWith(absl::ResourceExhaustedError("disk full"));
  EXPECT_EQ(scheduler_->Tick(), clock_.Now() + absl::Seconds(1));
  EXPECT_THAT(launcher_.requests, IsEmpty());
  store_.FailWith(absl::OkStatus());
  scheduler_->Tick();
  EXPECT_EQ(Running(), id);
  EXPECT_EQ(Stored(id).attempt, 1);
}

TEST_F(SchedulerAttemptTest, TheJobsLogTellsItsStory) {
  const std::string id = Submit();
  scheduler_->Tick();
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
