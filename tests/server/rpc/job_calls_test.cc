// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/job_calls.h"

#include <string>

#include "gtest/gtest.h"
#include "tests/server/rpc/fake_manager.h"

namespace mpsd::rpc {
namespace {

const auto kInvalid = absl::StatusCode::kInvalidArgument;
const auto kNotFound = absl::StatusCode::kNotFound;

TEST(Submit, AnswersWithTheQueuesJob) {
  FakeManager manager;
  manager.OnSubmit([](const jobs::SubmitRequest& request) {
    EXPECT_EQ(request.spec_json, "{\"model\": \"m\"}");
    return jobs::SubmitResult{FakeManager::MakeJob("a", jobs::State::kQueued),
                              true};
  });
  v1::SubmitRequest request;
  request.set_spec_json("{\"model\": \"m\"}");
  v1::SubmitResponse response;
  ASSERT_TRUE(Submit(manager, manager, request, {}, response).ok());
  EXPECT_EQ(response.job().id(), "a");
  EXPECT_EQ(response.job().queue_position(), 4);
  EXPECT_TRUE(response.existed());
}

TEST(GetJob, SaysWhatKeepsItFromTraining) {
  FakeManager manager;
  manager.Put("a", jobs::State::kRunning);
  manager.Put("b", jobs::State::kSucceeded);
  v1::GetJobRequest request;
  v1::Job free, paused, over;
  request.set_id("a");
  ASSERT_TRUE(GetJob(manager, request, free).ok());
  EXPECT_FALSE(free.has_pause());
  jobs::ManagerInfo info;
  info.pause.reasons = {jobs::PauseReason::kBattery};
  manager.SetInfo(info);
  ASSERT_TRUE(GetJob(manager, request, paused).ok());
  EXPECT_EQ(paused.pause().reasons(0), v1::PAUSE_REASON_BATTERY);
  request.set_id("b");
  ASSERT_TRUE(GetJob(manager, request, over).ok());
  EXPECT_FALSE(over.has_pause());
}

TEST(GetJob, SaysWhatHoldsIt) {
  FakeManager manager;
  manager.Put("a", jobs::State::kQueued);
  manager.Put("b", jobs::State::kFailed);
  jobs::ManagerInfo info;
  info.hold = "the disk is full";
  manager.SetInfo(info);
  v1::GetJobRequest request;
  v1::Job job;
  request.set_id("a");
  ASSERT_TRUE(GetJob(manager, request, job).ok());
  EXPECT_EQ(job.hold(), "the disk is full");
  request.set_id("b");
  job.Clear();
  ASSERT_TRUE(GetJob(manager, request, job).ok());
  EXPECT_EQ(job.hold(), "");
}

TEST(RetryJob, AnswersWithTheQueuedJob) {
  FakeManager manager;
  manager.Put("a", jobs::State::kFailed);
  v1::RetryRequest request;
  v1::Job job;
  EXPECT_EQ(RetryJob(manager, manager, request, job).code(), kInvalid);
  request.set_id("x");
  EXPECT_EQ(RetryJob(manager, manager, request, job).code(), kNotFound);
  request.set_id("a");
  ASSERT_TRUE(RetryJob(manager, manager, request, job).ok());
  EXPECT_EQ(job.state(), v1::JOB_STATE_QUEUED);
  EXPECT_EQ(RetryJob(manager, manager, request, job).code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(CancelJob, NowIsPassedOn) {
  FakeManager manager;
  manager.Put("a", jobs::State::kRunning);
  v1::CancelRequest request;
  request.set_id("a");
  request.set_now(true);
  v1::Job job;
  ASSERT_TRUE(CancelJob(manager, manager, request, job).ok());
  EXPECT_EQ(job.state(), v1::JOB_STATE_CANCELLED);
}

TEST(Submit, PassesTheQueuesErrorOn) {
  FakeManager manager;
  manager.OnSubmit([](const jobs::SubmitRequest&) {
    return absl::AlreadyExistsError("another spec");
  });
  v1::SubmitRequest request;
  request.set_spec_json("{}");
  v1::SubmitResponse response;
  EXPECT_EQ(Submit(manager, manager, request, {}, response),
            absl::AlreadyExistsError("another spec"));
}

TEST(Submit, ChecksBeforeTheQueueSeesIt) {
  FakeManager manager;
  manager.OnSubmit([](const jobs::SubmitRequest&) {
    ADD_FAILURE() << "must not come here";
    return absl::InternalError("");
  });
  v1::SubmitResponse response;
  EXPECT_EQ(Submit(manager, manager, {}, {}, response).code(), kInvalid);
}

TEST(GetJob, HasAPlaceInTheQueueWhileQueued) {
  FakeManager manager;
  manager.Put("a", jobs::State::kQueued);
  manager.Put("b", jobs::State::kRunning);
  v1::GetJobRequest request;
  v1::Job queued, running;
  request.set_id("a");
  ASSERT_TRUE(GetJob(manager, request, queued).ok());
  EXPECT_EQ(queued.queue_position(), 4);
  request.set_id("b");
  ASSERT_TRUE(GetJob(manager, request, running).ok());
  EXPECT_FALSE(running.has_queue_position());
}

TEST(JobCalls, UnknownAndEmptyIds) {
  FakeManager manager;
  v1::GetJobRequest get;
  v1::CancelRequest cancel;
  v1::CheckpointsRequest checkpoints;
  v1::Job job;
  v1::CheckpointsResponse listed;
  EXPECT_EQ(GetJob(manager, get, job).code(), kInvalid);
  EXPECT_EQ(CancelJob(manager, manager, cancel, job).code(), kInvalid);
  EXPECT_EQ(ListCheckpoints(manager, checkpoints, listed).code(), kInvalid);
  get.set_id("x");
  cancel.set_id("x");
  checkpoints.set_id("x");
  EXPECT_EQ(GetJob(manager, get, job).code(), kNotFound);
  EXPECT_EQ(CancelJob(manager, manager, cancel, job).code(), kNotFound);
  EXPECT_EQ(ListCheckpoints(manager, checkpoints, listed).code(), kNotFound);
}

TEST(CancelJob, AnswersWithTheJob) {
  FakeManager manager;
  manager.Put("a", jobs::State::kRunning);
  v1::CancelRequest request;
  request.set_id("a");
  v1::Job job;
  ASSERT_TRUE(CancelJob(manager, manager, request, job).ok());
  EXPECT_TRUE(job.cancel_requested());
}

TEST(ListCheckpoints, KeepsTheOrder) {
  FakeManager manager;
  manager.Put("a", jobs::State::kRunning);
  manager.AddCheckpoint("a", {{5, "/c/5", 1, 1}, absl::UnixEpoch()});
  manager.AddCheckpoint("a", {{10, "/c/10", 1, 1}, absl::UnixEpoch()});
  v1::CheckpointsRequest request;
  request.set_id("a");
  v1::CheckpointsResponse response;
  ASSERT_TRUE(ListCheckpoints(manager, request, response).ok());
  ASSERT_EQ(response.checkpoints().size(), 2);
  EXPECT_EQ(response.checkpoints(0).step(), 5);
  EXPECT_EQ(response.checkpoints(1).path(), "/c/10");
}

}  // namespace
}  // namespace mpsd::rpc
