// SPDX-License-Identifier: Apache-2.0
// What the machine lacks before a start and is blamed for after one: the table
// of server/jobs/attempt_end.h through the scheduler.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "server/jobs/scheduler.h"
#include "tests/server/jobs/scheduler_fixture.h"

namespace mpsd::jobs {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class SchedulerStartTest : public SchedulerFixture {
 protected:
  int LinesWith(const std::string& text) {
    int count = 0;
    for (const std::string& line : log_) {
      count += line.find(text) != std::string::npos;
    }
    return count;
  }
};

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
  scheduler_->Tick();
  EXPECT_EQ(Running(), id);
  EXPECT_EQ(board_->Info().hold, "");
}

TEST_F(SchedulerStartTest, AFullDiskHoldsAQueueAndFailsNobody) {
  std::vector<std::string> ids;
  for (int i = 0; i < 4; ++i) ids.push_back(Submit());
  scheduler_->Tick();
  // What a worker says that knows no better, of a checkpoint.
  files_.free_bytes = 999;
  launcher_.Exit(ExitReason::kCrashed, "the worker failed: ofstream");
  for (int i = 0; i < 100; ++i) {
    scheduler_->Tick();
    clock_.Advance(absl::Seconds(30));
  }
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
  scheduler_->Tick();
  EXPECT_EQ(Running(), ids[0]);
  EXPECT_EQ(board_->Info().hold, "");
  EXPECT_EQ(LinesWith("no job starts (disk)"), 1) << "logged once";
}

TEST_F(SchedulerStartTest, NoRoomForOneJobsCheckpointHoldsThatJob) {
  const std::string large = Submit(), small = Submit();
  Job row = Stored(large);
  row.checkpoint_bytes = int64_t{1} << 50;
  ASSERT_TRUE(store_.Update(row, {}).ok());
  scheduler_->Tick();
  EXPECT_EQ(Running(), small);
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
  scheduler_->Tick();
  EXPECT_EQ(Running(), other) << "whether it meets the fault tells whose it is";
  Worker().OnCheckpoint(At(1, "/step-1"));
  launcher_.Exit(ExitReason::kDone);
  scheduler_->Tick();
  EXPECT_EQ(Running(), id);
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
  scheduler_->Tick();
  EXPECT_EQ(Running(), other);
  EXPECT_EQ(Stored(away).attempt, 0);
  EXPECT_THAT(board_->HoldOf(away), HasSubstr("'/volumes/other'"));
  EXPECT_EQ(board_->Info().hold, "");
  launcher_.Exit(ExitReason::kDone);
  for (int i = 0; i < 20; ++i) {
    scheduler_->Tick();
    clock_.Advance(absl::Seconds(30));
  }
  EXPECT_EQ(StateOf(away), State::kQueued);
  EXPECT_EQ(LinesWith("/volumes/other"), 1);
  files_.models["org/other"] =
      JobFiles::Model{"/volumes/other", fakes::TinyModel()};
  clock_.Advance(absl::Seconds(30));
  scheduler_->Tick();
  EXPECT_EQ(Running(), away);
  EXPECT_THAT(board_->HoldOf(away), IsEmpty());
}

TEST_F(SchedulerStartTest, AVolumeThatGoesDuringTheAttemptIsNoRejection) {
  for (ExitReason reason : {ExitReason::kRejected, ExitReason::kCrashed}) {
    files_.paths = {"/data/train.jsonl"};
    const std::string id = Submit();
    scheduler_->Tick();
    ASSERT_EQ(Running(), id);
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
  const std::string id = Submit();
  scheduler_->Tick();
  files_.free_bytes = 0;
  launcher_.Exit(ExitReason::kRejected, "train.jsonl:3");
  EXPECT_EQ(StateOf(id), State::kFailed);
  EXPECT_EQ(Stored(id).message, "train.jsonl:3");
}

TEST_F(SchedulerStartTest, AnUnreadableRowStopsNeitherDaemonNorQueue) {
  const std::string first = Submit(), second = Submit(), third = Submit();
  scheduler_->Tick();
  ASSERT_EQ(Running(), first);
  store_.SpoilRow(first);
  store_.SpoilRow(second);
  KillAndRestart();
  for (const std::string& id : {first, second}) {
    EXPECT_EQ(StateOf(id), State::kFailed);
    EXPECT_THAT(Stored(id).message, HasSubstr("unreadable row"));
  }
  scheduler_->Tick();
  EXPECT_EQ(Running(), third);
  EXPECT_EQ(LinesWith("unreadable row"), 2);
}

TEST_F(SchedulerStartTest, ARowThatSpoilsInTheQueueIsPassedOver) {
  const std::string first = Submit(), second = Submit();
  store_.SpoilRow(first);
  scheduler_->Tick();
  EXPECT_EQ(Running(), second);
  EXPECT_EQ(StateOf(first), State::kFailed);
  EXPECT_EQ(exported_metrics_.counts.at(State::kFailed), 1);
  EXPECT_EQ(exported_metrics_.end_states, std::vector{State::kFailed});
  EXPECT_EQ(exported_metrics_.queue.oldest, std::nullopt);
  EXPECT_EQ(board_->QueuePosition(first), std::nullopt);
}

TEST_F(SchedulerStartTest, AClockSetBackLengthensNoWait) {
  const std::string id = Submit();
  scheduler_->Tick();
  launcher_.Exit(ExitReason::kCrashed);
  clock_.SetBack(absl::Hours(24));
  scheduler_->Tick();
  clock_.Advance(absl::Seconds(10));
  scheduler_->Tick();
  EXPECT_EQ(Running(), id);
  launcher_.Exit(ExitReason::kCrashed);
  // And for a daemon that finds such a row.
  clock_.SetBack(absl::Hours(24));
  KillAndRestart();
  clock_.Advance(absl::Seconds(60));
  scheduler_->Tick();
  EXPECT_EQ(Running(), id);
}

TEST_F(SchedulerStartTest, AJobBeyondTheMachineIsRefusedUnlessToldAnyway) {
  machine_bytes_ = 1000;
  Restart();
  SubmitRequest request = Request();
  const absl::Status refused = scheduler_->Submit(request).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(
      std::string(refused.message()),
      AllOf(HasSubstr("this machine has 1000 B for it"),
            HasSubstr("per_device_train_batch_size"), HasSubstr("--anyway")));
  request.anyway = true;
  const auto accepted = scheduler_->Submit(request);
  ASSERT_TRUE(accepted.ok()) << accepted.status();
  EXPECT_GT(accepted->job.memory_bytes, 1000);
  EXPECT_GT(accepted->job.checkpoint_bytes, 0);
  scheduler_->Tick();
  EXPECT_EQ(Running(), accepted->job.id);
}

}  // namespace
}  // namespace mpsd::jobs
