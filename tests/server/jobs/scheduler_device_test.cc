// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/jobs/scheduler.h"
#include "tests/core/status_matchers.h"
#include "tests/server/jobs/scheduler_fixture.h"

// What the machine lacks before a start and is blamed for after one, and
// interruptions: the table of server/jobs/attempt_end.h through the scheduler.
// Jobs that run again because somebody asks for it, and pauses.

namespace mpsd::jobs {
namespace {

using enum absl::StatusCode;
using host::MemoryPressure;
using host::PowerSource;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing_support::Fails;
using testing_support::Ok;

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

TEST_F(SchedulerStartTest, AFullDiskHoldsAQueueAndFailsNobody) {
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
  EXPECT_EQ(Next(), other) << "whether it meets the fault tells whose it is";
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

TEST_F(SchedulerStartTest, AWrongJobIsStillRejected) {
  const std::string id = Start();
  files_.free_bytes = 0;
  launcher_.Exit(ExitReason::kRejected, "train.jsonl:3");
  EXPECT_EQ(StateOf(id), State::kFailed);
  EXPECT_EQ(Stored(id).message, "train.jsonl:3");
}

TEST_F(SchedulerStartTest, AnUnreadableRowStopsNeitherDaemonNorQueue) {
  const std::string first = Submit(), second = Submit(), third = Submit();
  ASSERT_EQ(Next(), first);
  store_.SpoilRow(first);
  store_.SpoilRow(second);
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
  store_.SpoilRow(first);
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

TEST_F(SchedulerStartTest, AJobBeyondTheMachineIsRefusedUnlessToldAnyway) {
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

TEST_F(SchedulerBlameTest, ACheckpointNobodyHeardOfCountsToo) {
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

TEST_F(SchedulerBlameTest, ACleanDrainNeverCounts) {
  const std::string id = Submit();
  for (int round = 1; round <= 12; ++round) {
    ASSERT_EQ(Next(), id);
    scheduler_->Drain();
    launcher_.Exit(ExitReason::kPreempted, "stopped at a checkpoint");
    Restart();
    ASSERT_TRUE(scheduler_->Recover().ok());
    ASSERT_EQ(Stored(id).interruptions, 0);
    ASSERT_EQ(Stored(id).behind, false);
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

TEST_F(SchedulerPressureTest, SelfMadePressureStarvesNobody) {
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

TEST_F(SchedulerPressureTest, AJobThatAdvancesGoesOnBehindTheOthers) {
  const std::string large = Submit();
  After(absl::Seconds(5));
  for (int round = 1; round <= 10; ++round) {
    ASSERT_EQ(Running(), large);
    Worker().OnCheckpoint(At(round, "/step-" + std::to_string(round)));
    const std::string small = Submit();
    Press();
    ASSERT_EQ(Stored(large).interruptions, 0);
    ASSERT_EQ(Running(), small);
    launcher_.Exit(ExitReason::kDone);
    After(absl::Seconds(5));
  }
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
  EXPECT_THAT(*store_.Checkpoints(id), testing::SizeIs(1));
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

TEST_F(SchedulerRetryTest, ARunningJobReturnsToTheQueueAndGoesOn) {
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
  Job pinned = Stored(id);
  pinned.pinned = true;
  ASSERT_TRUE(store_.Update(pinned, {}).ok());
  EXPECT_THAT(scheduler_->Retry(id, true),
              Fails(kFailedPrecondition, "mpsctl unpin"));
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

TEST_F(SchedulerPauseTest, LooksAtTheMachineEveryFewSeconds) {
  EXPECT_EQ(scheduler_->Tick(), clock_.Now() + absl::Seconds(5));
  EXPECT_EQ(machine_.reads, 1);
  clock_.Advance(absl::Seconds(2));
  EXPECT_EQ(scheduler_->Tick(), clock_.Now() + absl::Seconds(3));
  EXPECT_EQ(machine_.reads, 1);
  After(absl::Seconds(3));
  EXPECT_EQ(machine_.reads, 2);
  EXPECT_THAT(exported_metrics_.readings, SizeIs(2));
  EXPECT_EQ(board_->Info().host, machine_.reading);
}

TEST_F(SchedulerPauseTest, AJobIsHeldAndGoesOn) {
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
                                     "goes on after a pause of 1m35s"));
  launcher_.Exit(ExitReason::kDone);
  EXPECT_EQ(StateOf(id), State::kSucceeded);
}

// The worker's Held crosses the scheduler's Resume: the worker halted all the
// same.
TEST_F(SchedulerPauseTest, AHaltThatIsToldLateIsToldOn) {
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
  EXPECT_FALSE(Stored(id).behind);
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

TEST_F(SchedulerPauseTest, UnderMemoryPressureTheMemoryIsGivenBackSoon) {
  Start();
  machine_.reading.memory_pressure = MemoryPressure::kCritical;
  After(absl::Seconds(5));
  EXPECT_EQ(launcher_.paused, 1);
  After(absl::Minutes(1));
  EXPECT_EQ(launcher_.preempted, 1);
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

TEST_F(SchedulerPauseTest, SaysOnceWhatTheMachineDoesNotTell) {
  machine_.reading = {};
  machine_.reading.memory_pressure = MemoryPressure::kNormal;
  const std::string id = Start();
  After(absl::Seconds(5));
  EXPECT_EQ(LinesWith("does not report: on battery"), 1);
  EXPECT_EQ(Running(), id);
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

}  // namespace
}  // namespace mpsd::jobs
