// SPDX-License-Identifier: Apache-2.0
#include "client/top/job_row.h"

#include <gtest/gtest.h>

#include <cmath>

namespace mpsd::client::top {
namespace {

v1::Job MakeJob(v1::JobState state) {
  v1::Job job;
  job.set_id("01KAH0000000000000000000AA");
  job.set_name("moods");
  job.set_owner("ann");
  job.set_state(state);
  job.mutable_create_time()->set_seconds(1000);
  return job;
}

TEST(RowOf, TakesWhatTheListShows) {
  v1::Job job = MakeJob(v1::JOB_STATE_RUNNING);
  v1::Progress& progress = *job.mutable_progress();
  progress.set_step(25);
  progress.set_total_steps(100);
  progress.set_loss(1.5);
  progress.set_step_seconds(0.25);
  progress.set_tokens_per_second(800);
  progress.set_eta_seconds(19);
  job.set_eval_loss_before(2.5);
  job.set_priority(3);
  job.set_attempt(2);
  JobRow row = RowOf(job);
  EXPECT_EQ(row.id, job.id());
  EXPECT_EQ(row.name, "moods");
  EXPECT_EQ(row.owner, "ann");
  EXPECT_EQ(row.step, 25);
  EXPECT_EQ(row.total_steps, 100);
  EXPECT_EQ(row.share(), 0.25);
  EXPECT_EQ(row.loss, 1.5);
  EXPECT_EQ(row.eval_loss, 2.5);
  EXPECT_EQ(row.step_seconds, 0.25);
  EXPECT_EQ(row.tokens_per_second, 800);
  EXPECT_EQ(row.eta_seconds, 19);
  EXPECT_EQ(row.priority, 3);
  EXPECT_EQ(row.attempt, 2);
  EXPECT_EQ(row.created, absl::FromUnixSeconds(1000));
  EXPECT_FALSE(row.is_final());
  job.set_eval_loss_after(0.5);
  EXPECT_EQ(RowOf(job).eval_loss, 0.5);
}

TEST(RowOf, KnowsNothingOfAJobThatHasNotStarted) {
  const JobRow row = RowOf(MakeJob(v1::JOB_STATE_QUEUED));
  EXPECT_TRUE(std::isnan(row.loss));
  EXPECT_TRUE(std::isnan(row.eta_seconds));
  EXPECT_EQ(row.share(), 0);
  EXPECT_EQ(row.queue_position, -1);
}

TEST(RowOf, StaysSmallWhateverTheMessage) {
  v1::Job job = MakeJob(v1::JOB_STATE_FAILED);
  job.set_message(std::string(8192, 'x'));
  EXPECT_LE(RowOf(job).note.size(), 160u);
  job.set_message("first\nsecond");
  EXPECT_EQ(RowOf(job).note, "first");
}

TEST(RowOf, SaysWhyAJobWaits) {
  v1::Job job = MakeJob(v1::JOB_STATE_QUEUED);
  job.set_message("the attempt before");
  job.mutable_pause()->add_reasons(v1::PAUSE_REASON_THERMAL);
  EXPECT_EQ(RowOf(job).note, "too hot");
  job.set_hold("the disk is full");
  EXPECT_EQ(RowOf(job).note, "the disk is full");
}

TEST(StateText, NamesWhatAJobIsAbout) {
  v1::Job job = MakeJob(v1::JOB_STATE_RUNNING);
  EXPECT_EQ(StateText(RowOf(job)), "RUNNING");
  EXPECT_EQ(StateLook(RowOf(job)), Look::kGood);
  job.mutable_pause()->add_reasons(v1::PAUSE_REASON_BATTERY);
  EXPECT_EQ(StateText(RowOf(job)), "PAUSED");
  EXPECT_EQ(StateLook(RowOf(job)), Look::kWarning);
  job.set_cancel_requested(true);
  EXPECT_EQ(StateText(RowOf(job)), "CANCELLING");
  job = MakeJob(v1::JOB_STATE_QUEUED);
  EXPECT_EQ(StateText(RowOf(job)), "QUEUED");
  job.set_queue_position(11);
  EXPECT_EQ(StateText(RowOf(job)), "QUEUED 12");
  job.set_hold("the model is away");
  EXPECT_EQ(StateText(RowOf(job)), "HELD");
  job = MakeJob(v1::JOB_STATE_CANCELLED);
  job.set_cancel_requested(true);
  EXPECT_EQ(StateText(RowOf(job)), "CANCELLED");
  EXPECT_EQ(StateLook(RowOf(MakeJob(v1::JOB_STATE_FAILED))), Look::kBad);
}

TEST(StepTime, ShowsMillisecondsOfFastSteps) {
  EXPECT_EQ(StepTime(0.0234), "23ms");
  EXPECT_EQ(StepTime(0.9991), "999ms");
  EXPECT_EQ(StepTime(0.9996), "1.0s");
  EXPECT_EQ(StepTime(785), "13m05s");
  EXPECT_EQ(StepTime(std::nan("")), "-");
}

}  // namespace
}  // namespace mpsd::client::top
