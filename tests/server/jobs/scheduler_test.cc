// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/server/jobs/scheduler_fixture.h"

namespace mpsd::jobs {
namespace {

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
  EXPECT_EQ(metrics_.counts.at(State::kQueued), 1);
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
  EXPECT_THAT(*scheduler_->List({}), IsEmpty());
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
  EXPECT_EQ(scheduler_->List({})->size(), 1);
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
  EXPECT_EQ(scheduler_->QueuePosition(first), std::nullopt);
  EXPECT_EQ(scheduler_->QueuePosition(second), 0);
  EXPECT_THAT(metrics_.ended, ElementsAre(first));
  scheduler_->Tick();
  EXPECT_EQ(Running(), second);
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
  EXPECT_TRUE(absl::IsNotFound(scheduler_->Get("X").status()));
  EXPECT_TRUE(absl::IsNotFound(scheduler_->Cancel("X").status()));
  EXPECT_TRUE(absl::IsNotFound(scheduler_->Events("X", 0).status()));
  EXPECT_TRUE(absl::IsNotFound(scheduler_->Checkpoints("X").status()));
  EXPECT_EQ(scheduler_->LogPath("../../etc"), "");
  EXPECT_EQ(scheduler_->JobFolder("../../etc"), "");
}

TEST_F(SchedulerTest, EventsContinueBehindASequence) {
  const std::string id = Submit();
  scheduler_->Tick();
  ASSERT_EQ(scheduler_->Events(id, 0)->size(), 2);
  ASSERT_EQ(scheduler_->Events(id, 1)->size(), 1);
  EXPECT_EQ(scheduler_->Events(id, 1)->front().sequence, 2);
  EXPECT_THAT(*scheduler_->Events(id, 2), IsEmpty());
}

TEST_F(SchedulerTest, PathsLieInTheStateFolder) {
  const std::string id = Submit();
  EXPECT_EQ(scheduler_->JobFolder(id), "/state/jobs/" + id);
  EXPECT_EQ(scheduler_->LogPath(id), "/state/jobs/" + id + "/log");
}

TEST_F(SchedulerTest, RecoverRequeuesWhatRan) {
  const std::string ran = Submit(), queued = Submit(5);
  scheduler_->Tick();
  ASSERT_EQ(Running(), queued);
  // The row as a daemon killed at this moment leaves it.
  const Job row = Stored(queued);
  launcher_.listener = nullptr;
  Restart();
  ASSERT_EQ(StateOf(queued), State::kRunning);
  ASSERT_TRUE(scheduler_->Recover().ok());
  EXPECT_EQ(StateOf(queued), State::kQueued);
  EXPECT_EQ(Stored(queued).failures, row.failures);
  EXPECT_THAT(Stored(queued).message, HasSubstr("last checkpoint"));
  EXPECT_EQ(scheduler_->QueuePosition(queued), 0);
  EXPECT_EQ(scheduler_->QueuePosition(ran), 1);
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
  const std::vector<Job> newest = *scheduler_->List({});
  EXPECT_EQ(scheduler_->QueuePosition(newest.front().id), 1099);
}

TEST_F(SchedulerTest, RecoverReportsTheStoresError) {
  Submit();
  scheduler_->Tick();
  launcher_.listener = nullptr;
  Restart();
  store_.FailWith(absl::ResourceExhaustedError("disk full"));
  EXPECT_TRUE(absl::IsResourceExhausted(scheduler_->Recover()));
}

}  // namespace
}  // namespace mpsd::jobs
