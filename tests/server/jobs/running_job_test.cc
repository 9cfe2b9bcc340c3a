// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "core/report/stage_names.h"
#include "server/jobs/attempt.h"
#include "tests/fakes/fake_job_store.h"

namespace mpsd::jobs {
namespace {

const absl::Time kNow = absl::FromUnixSeconds(1000);

class RunningJobTest : public testing::Test {
 protected:
  RunningJobTest() : run_(QueuedJob(), 1, 0) {
    const Event first{"J", 1, kNow, StateChanged{State::kQueued, ""}};
    EXPECT_TRUE(store_.Insert(QueuedJob(), first).ok());
    run_.Start("boot", kNow);
    EXPECT_TRUE(run_.Flush(store_).ok());
  }
  static Job QueuedJob() {
    Job job;
    job.id = "J";
    job.failures = 2;
    job.not_before = kNow;
    job.message = "failure 2";
    return job;
  }
  Job Stored() { return *store_.Get("J"); }
  std::vector<Event> Events() { return *store_.Events("J", 0, 100); }
  static Progress Step(int64_t step) {
    Progress progress;
    progress.step = step;
    progress.total_steps = 10;
    progress.tokens = 50;
    progress.seconds = 0.5;
    return progress;
  }

  fakes::FakeJobStore store_;
  RunningJob run_;
};

TEST_F(RunningJobTest, LoadGoesOnWhereTheStoreEnds) {
  Checkpoint checkpoint;
  checkpoint.step = 7;
  checkpoint.path = "/step-7";
  ASSERT_TRUE(store_.AddCheckpoint("J", checkpoint).ok());
  absl::StatusOr<RunningJob> run = RunningJob::Load(store_, Stored());
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->job().durable_step, 7);
  run->Noted("more", kNow);
  EXPECT_TRUE(run->Flush(store_).ok()) << "its sequence follows the stored one";
  EXPECT_EQ(Events().back().sequence, 3);
}

TEST_F(RunningJobTest, StartingIsTheNextAttempt) {
  EXPECT_EQ(Stored().state, State::kRunning);
  EXPECT_EQ(Stored().attempt, 1);
  EXPECT_EQ(Stored().start_time, kNow);
  EXPECT_EQ(Stored().not_before, std::nullopt);
  EXPECT_EQ(Stored().message, "");
  ASSERT_EQ(Events().size(), 2);
  EXPECT_EQ(std::get<StateChanged>(Events()[1].body).state, State::kRunning);
}

TEST_F(RunningJobTest, OnlyTheLatestProgressBetweenFlushesIsAnEvent) {
  run_.Progressed(Step(1), kNow);
  run_.Progressed(Step(2), kNow);
  EXPECT_TRUE(run_.dirty());
  EXPECT_TRUE(run_.Flush(store_).ok());
  EXPECT_FALSE(run_.dirty());
  run_.Progressed(Step(3), kNow);
  run_.Evaluated({3, 0.5, 0, 0, {}}, kNow);
  run_.Progressed(Step(4), kNow);
  EXPECT_TRUE(run_.Flush(store_).ok());
  ASSERT_EQ(Events().size(), 6);
  EXPECT_EQ(std::get<Progress>(Events()[2].body).step, 2);
  EXPECT_EQ(std::get<Progress>(Events()[3].body).step, 3);
  EXPECT_EQ(std::get<Evaluated>(Events()[4].body).step, 3);
  EXPECT_EQ(std::get<Progress>(Events()[5].body).step, 4);
  EXPECT_EQ(Stored().progress->step, 4);
  EXPECT_EQ(Stored().progress->tokens_per_second, 100);
}

TEST_F(RunningJobTest, AFailedFlushKeepsEverything) {
  store_.FailWith(absl::ResourceExhaustedError("disk full"));
  run_.Evaluated({0, 2, 0, 0, {}}, kNow);
  EXPECT_FALSE(run_.Flush(store_).ok());
  run_.Evaluated({5, 1, 0, 0, {}}, kNow);
  EXPECT_FALSE(run_.Flush(store_).ok());
  store_.FailWith(absl::OkStatus());
  EXPECT_TRUE(run_.Flush(store_).ok());
  ASSERT_EQ(Events().size(), 4);
  EXPECT_EQ(Events()[3].sequence, 4);
  EXPECT_EQ(Stored().eval_loss_before, 2);
  EXPECT_EQ(Stored().eval_loss_after, 1);
}

TEST_F(RunningJobTest, OnlyANewCheckpointForgivesFailures) {
  RunningJob run(Stored(), 2, /*last_checkpoint=*/10);
  Checkpoint checkpoint;
  checkpoint.step = 10;
  run.CheckpointWritten(checkpoint);
  EXPECT_EQ(run.job().failures, 2);
  checkpoint.step = 11;
  run.CheckpointWritten(checkpoint);
  EXPECT_EQ(run.job().failures, 0);
}

TEST_F(RunningJobTest, AStageIsNotedOnce) {
  run_.Staged("loading model", kNow);
  run_.Staged("loading model", kNow);
  run_.Staged("", kNow);
  run_.Staged(report::kStageSaving, kNow);
  run_.Staged("tokenizing", kNow);
  EXPECT_TRUE(run_.Flush(store_).ok());
  ASSERT_EQ(Events().size(), 4);
  EXPECT_EQ(std::get<Note>(Events()[3].body).text, "tokenizing");
}

TEST_F(RunningJobTest, AWarningIsKeptAndToldOnce) {
  run_.Warned("memory grows", kNow);
  run_.Warned("memory grows", kNow);
  EXPECT_TRUE(run_.Flush(store_).ok());
  // The next attempt finds the same amiss.
  RunningJob again(Stored(), 3, 0);
  again.Warned("memory grows", kNow);
  EXPECT_FALSE(again.dirty());
  again.Warned("and grows", kNow);
  EXPECT_TRUE(again.Flush(store_).ok());
  EXPECT_THAT(Stored().warnings,
              testing::ElementsAre("memory grows", "and grows"));
  ASSERT_EQ(Events().size(), 4);
  for (int i : {2, 3}) {
    EXPECT_TRUE(std::get<Note>(Events()[i].body).is_warning);
    EXPECT_EQ(std::get<Note>(Events()[i].body).text, Stored().warnings[i - 2]);
  }
}

TEST_F(RunningJobTest, WarningsHaveBounds) {
  run_.Warned(std::string(1 << 20, 'x'), kNow);
  for (int i = 0; i < 1000; ++i) run_.Warned(absl::StrCat("text ", i), kNow);
  EXPECT_TRUE(run_.Flush(store_).ok());
  const std::vector<std::string> warnings = Stored().warnings;
  ASSERT_EQ(warnings.size(), RunningJob::kMostWarnings);
  EXPECT_EQ(warnings[0], std::string(RunningJob::kLongestWarning, 'x'));
  EXPECT_EQ(warnings[1], "text 0");
  EXPECT_THAT(warnings.back(), testing::HasSubstr("more warnings"));
  EXPECT_EQ(Events().size(), 2 + RunningJob::kMostWarnings);
}

TEST_F(RunningJobTest, KeepsTheLatestMetricsAndTheBestEvaluation) {
  RunningJob run(Stored(), 2, 0);
  run.Evaluated({0, 1, 0, 0, {{"f1", 1.0}}}, kNow);
  EXPECT_FALSE(run.job().best_evaluation.has_value());
  run.Evaluated({4, 3, 0, 0, {{"f1", 0.5}}, true}, kNow);
  run.Evaluated({8, 4, 0, 0, {{"f1", 0.75}}, true}, kNow);
  run.Evaluated({12, 2, 0, 0, {{"f1", 0.625}}}, kNow);
  EXPECT_EQ(run.job().metrics, (Metrics{{"f1", 0.625}}));
  ASSERT_TRUE(run.job().best_evaluation.has_value());
  EXPECT_EQ(run.job().best_evaluation->step, 8);
  EXPECT_EQ(run.job().best_evaluation->metrics, (Metrics{{"f1", 0.75}}));
}

TEST_F(RunningJobTest, DoneFillsTheRow) {
  WorkerListener::Result result;
  result.reason = ExitReason::kDone;
  result.outcome.output_path = "/adapter";
  result.outcome.train_loss = 1;
  result.outcome.eval_loss_after = 3;
  result.outcome.output_kind = OutputKind::kModel;
  result.outcome.metrics = {{"accuracy", 0.5}};
  result.outcome.confusion_matrix = "{}";
  run_.Evaluated({0, 4, 0, 0, {}}, kNow);
  NextState next;
  next.state = State::kSucceeded;
  run_.Ended(result, next, kNow + absl::Seconds(9));
  EXPECT_TRUE(run_.Flush(store_).ok());
  EXPECT_EQ(Stored().state, State::kSucceeded);
  EXPECT_EQ(Stored().exit_reason, ExitReason::kDone);
  EXPECT_EQ(Stored().output_path, "/adapter");
  EXPECT_EQ(Stored().train_loss, 1);
  EXPECT_EQ(Stored().eval_loss_before, 4);
  EXPECT_EQ(Stored().eval_loss_after, 3);
  EXPECT_EQ(Stored().output_kind, OutputKind::kModel);
  EXPECT_EQ(Stored().metrics, (Metrics{{"accuracy", 0.5}}));
  EXPECT_EQ(Stored().confusion_matrix, "{}");
  EXPECT_EQ(Stored().end_time, kNow + absl::Seconds(9));
}

TEST_F(RunningJobTest, ARetryKeepsNoEndTime) {
  run_.CancelRequested(kNow);
  EXPECT_TRUE(run_.job().cancel_requested);
  NextState next;
  next.state = State::kQueued;
  next.failures = 3;
  next.interruptions = 2;
  next.behind = true;
  next.not_before = kNow + absl::Seconds(5);
  next.message = "again";
  run_.Ended({}, next, kNow);
  EXPECT_EQ(run_.job().end_time, std::nullopt);
  EXPECT_EQ(run_.job().not_before, kNow + absl::Seconds(5));
  EXPECT_EQ(run_.job().failures, 3);
  EXPECT_EQ(run_.job().interruptions, 2);
  EXPECT_TRUE(run_.job().behind);
  EXPECT_EQ(run_.job().message, "again");
  EXPECT_FALSE(run_.job().cancel_requested);
}

TEST_F(RunningJobTest, ChargesAreStoredWithTheRow) {
  run_.Charged(absl::Seconds(5), OwnerUse{"ann", 5, kNow});
  EXPECT_TRUE(run_.dirty());
  run_.Charged(absl::Seconds(2), OwnerUse{"ann", 7, kNow});
  run_.Charged(absl::Seconds(1), std::nullopt);
  store_.FailWith(absl::ResourceExhaustedError("disk full"));
  EXPECT_FALSE(run_.Flush(store_).ok());
  store_.FailWith(absl::OkStatus());
  EXPECT_TRUE(run_.Flush(store_).ok());
  EXPECT_EQ(Stored().device_time, absl::Seconds(8));
  const std::vector<OwnerUse> uses = *store_.OwnerUses();
  ASSERT_EQ(uses.size(), 1u);
  EXPECT_EQ(uses[0].seconds, 7);
}

TEST_F(RunningJobTest, AHoldAndAPlacedResultAreStored) {
  run_.Held("not now", kNow);
  run_.Respecified("{\"model\":\"/m\"}");
  ASSERT_TRUE(run_.Flush(store_).ok());
  EXPECT_TRUE(Stored().held);
  EXPECT_EQ(Stored().hold_reason, "not now");
  EXPECT_EQ(Stored().spec_json, "{\"model\":\"/m\"}");
  EXPECT_EQ(std::get<Note>(Events().back().body).text, "held: not now");
}

TEST_F(RunningJobTest, WhatPeopleDoToAQueuedJobIsAnEvent) {
  run_.Moved(State::kQueued, "", kNow);
  run_.Held("by ann", kNow);
  EXPECT_TRUE(run_.job().held);
  EXPECT_EQ(run_.job().hold_reason, "by ann");
  run_.MovedTo(-3, true, 5, "moved", kNow);
  ASSERT_TRUE(run_.Flush(store_).ok());
  EXPECT_EQ(Stored().place, -3);
  EXPECT_TRUE(Stored().among_all);
  EXPECT_EQ(Stored().priority, 5);
  EXPECT_TRUE(Stored().held);
  run_.Released({"A"}, kNow);
  ASSERT_TRUE(run_.Flush(store_).ok());
  EXPECT_FALSE(Stored().held);
  EXPECT_EQ(Stored().hold_reason, "");
  EXPECT_THAT(Stored().after, testing::ElementsAre("A"));
  std::vector<std::string> notes;
  for (const Event& event : Events()) {
    const auto* note = std::get_if<Note>(&event.body);
    if (note != nullptr) notes.push_back(note->text);
  }
  EXPECT_THAT(notes, testing::ElementsAre("held: by ann", "moved", "released"));
}

TEST_F(RunningJobTest, AnEndEndsTheHold) {
  run_.Moved(State::kQueued, "", kNow);
  run_.Held("by ann", kNow);
  run_.Moved(State::kCancelled, "", kNow);
  EXPECT_FALSE(run_.job().held);
  EXPECT_EQ(run_.job().hold_reason, "");
}

TEST_F(RunningJobTest, FromScratchForgetsWhatTheRunReached) {
  run_.Progressed(Step(7), kNow);
  run_.CheckpointWritten({{5, "/c"}, kNow});
  run_.Warned("amiss", kNow);
  WorkerListener::Result done;
  done.reason = ExitReason::kDone;
  done.outcome.output_path = "/out";
  done.outcome.train_loss = 1;
  NextState next;
  next.state = State::kSucceeded;
  run_.Ended(done, next, kNow);
  run_.Renewed(kNow);
  ASSERT_TRUE(run_.Flush(store_).ok());
  const Job job = Stored();
  EXPECT_EQ(job.state, State::kQueued);
  EXPECT_TRUE(job.fresh);
  EXPECT_EQ(job.progress, std::nullopt);
  EXPECT_EQ(job.train_loss, std::nullopt);
  EXPECT_EQ(job.durable_step, 0);
  EXPECT_EQ(job.output_path, "");
  EXPECT_TRUE(job.warnings.empty());
  EXPECT_EQ(job.end_time, std::nullopt);
  EXPECT_EQ(job.attempt, 1) << "that it ran is not forgotten";
  run_.Start("boot", kNow);
  EXPECT_FALSE(run_.job().fresh);
}

TEST_F(RunningJobTest, ARunningJobForgetsOnceItIsQueued) {
  run_.Progressed(Step(7), kNow);
  run_.RenewLater();
  ASSERT_TRUE(run_.Flush(store_).ok());
  EXPECT_TRUE(Stored().fresh);
  EXPECT_TRUE(Stored().progress.has_value());
  NextState next;
  next.state = State::kQueued;
  run_.Ended({}, next, kNow);
  EXPECT_EQ(run_.job().progress, std::nullopt);
  EXPECT_TRUE(run_.job().fresh);
}

}  // namespace
}  // namespace mpsd::jobs
