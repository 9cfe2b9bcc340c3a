// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/job_calls.h"

#include <string>

#include "gtest/gtest.h"
#include "tests/server/rpc/fake_ledger.h"
#include "tests/server/rpc/fake_manager.h"

namespace mpsd::rpc {
namespace {

const auto kInvalid = absl::StatusCode::kInvalidArgument;
const auto kNotFound = absl::StatusCode::kNotFound;

access::Rights Ada(bool private_jobs) {
  access::Caller caller;
  caller.user = "ada";
  caller.role = access::Role::kUser;
  return access::Rights(caller, private_jobs);
}
access::Rights Anybody() { return Ada(/*private_jobs=*/false); }
Call SomeCall(bool private_jobs = false) { return {Ada(private_jobs), {}, ""}; }

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
  Call call = SomeCall();
  ASSERT_TRUE(
      Submit(manager, manager, /*ledger=*/nullptr, request, call, response)
          .ok());
  EXPECT_EQ(call.made_job_id, "a");
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
  ASSERT_TRUE(GetJob(manager, Anybody(), request, free).ok());
  EXPECT_FALSE(free.has_pause());
  jobs::ManagerInfo info;
  info.pause.reasons = {jobs::PauseReason::kBattery};
  manager.SetInfo(info);
  ASSERT_TRUE(GetJob(manager, Anybody(), request, paused).ok());
  EXPECT_EQ(paused.pause().reasons(0), v1::PAUSE_REASON_BATTERY);
  request.set_id("b");
  ASSERT_TRUE(GetJob(manager, Anybody(), request, over).ok());
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
  ASSERT_TRUE(GetJob(manager, Anybody(), request, job).ok());
  EXPECT_EQ(job.hold(), "the disk is full");
  request.set_id("b");
  job.Clear();
  ASSERT_TRUE(GetJob(manager, Anybody(), request, job).ok());
  EXPECT_EQ(job.hold(), "");
}

TEST(CancelJob, NowIsPassedOn) {
  FakeManager manager;
  manager.Put("a", jobs::State::kRunning);
  v1::CancelRequest request;
  request.set_id("a");
  request.set_now(true);
  v1::Job job;
  ASSERT_TRUE(CancelJob(manager, manager, request, SomeCall(), job).ok());
  EXPECT_EQ(job.state(), v1::JOB_STATE_CANCELLED);
}

TEST(Submit, IsOwnedByWhoAsks) {
  FakeManager manager;
  std::string owner;
  manager.OnSubmit([&](const jobs::SubmitRequest& request) {
    owner = request.owner;
    EXPECT_FALSE(request.may_read_job);
    EXPECT_FALSE(request.may_use_blob);
    return jobs::SubmitResult{FakeManager::MakeJob("a", jobs::State::kQueued),
                              false};
  });
  v1::SubmitRequest request;
  request.set_spec_json("{}");
  v1::SubmitResponse response;
  for (const char* named : {"", "ada"}) {
    request.set_owner(named);
    Call call = SomeCall();
    ASSERT_TRUE(
        Submit(manager, manager, /*ledger=*/nullptr, request, call, response)
            .ok());
    EXPECT_EQ(owner, "ada");
  }
  request.set_owner("bob");
  owner.clear();
  Call call = SomeCall();
  const absl::Status refused =
      Submit(manager, manager, /*ledger=*/nullptr, request, call, response);
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(refused.message(),
            "owner: 'bob' is not you (ada): a job is owned by who submits it; "
            "leave the field out, as mpsctl does since it has logins");
  EXPECT_EQ(owner, "");
}

TEST(Submit, MayReadOwnJobsAloneWhereTheyArePrivate) {
  FakeManager manager;
  FakeLedger ledger;
  ledger.Send("ada", std::string(64, 'a'));
  ledger.Send("bob", std::string(64, 'b'));
  jobs::Job own = FakeManager::MakeJob("own", jobs::State::kSucceeded);
  own.owner = "ada";
  manager.Put(own);
  manager.Put("another", jobs::State::kSucceeded);
  manager.OnSubmit([&](const jobs::SubmitRequest& request) {
    EXPECT_TRUE(request.may_read_job("own"));
    EXPECT_FALSE(request.may_read_job("another"));
    EXPECT_FALSE(request.may_read_job("none"));
    EXPECT_TRUE(request.may_use_blob(std::string(64, 'a')));
    EXPECT_FALSE(request.may_use_blob(std::string(64, 'b')));
    return jobs::SubmitResult{own, false};
  });
  v1::SubmitRequest request;
  request.set_spec_json("{}");
  v1::SubmitResponse response;
  Call call = SomeCall(/*private_jobs=*/true);
  EXPECT_TRUE(Submit(manager, manager, &ledger, request, call, response).ok());
}

TEST(GetJob, ShowsThePublicPartOfAPrivateJob) {
  FakeManager manager;
  jobs::Job job = FakeManager::MakeJob("a", jobs::State::kRunning);
  job.owner = "bob";
  job.name = "secret";
  job.message = "secret";
  job.priority = 7;
  manager.Put(job);
  jobs::ManagerInfo info;
  info.hold = "/secret is away";
  manager.SetInfo(info);
  v1::GetJobRequest request;
  request.set_id("a");
  v1::Job shown, hidden;
  ASSERT_TRUE(GetJob(manager, Anybody(), request, shown).ok());
  EXPECT_EQ(shown.name(), "secret");
  EXPECT_EQ(shown.spec_json(), "{}");
  ASSERT_TRUE(GetJob(manager, Ada(true), request, hidden).ok());
  EXPECT_EQ(hidden.owner(), "bob");
  EXPECT_EQ(hidden.priority(), 7);
  EXPECT_EQ(hidden.state(), v1::JOB_STATE_RUNNING);
  EXPECT_EQ(hidden.DebugString().find("secret"), std::string::npos);
  EXPECT_EQ(hidden.spec_json(), "");
}

TEST(Submit, PassesTheQueuesErrorOn) {
  FakeManager manager;
  manager.OnSubmit([](const jobs::SubmitRequest&) {
    return absl::AlreadyExistsError("another spec");
  });
  v1::SubmitRequest request;
  request.set_spec_json("{}");
  v1::SubmitResponse response;
  Call call = SomeCall();
  EXPECT_EQ(
      Submit(manager, manager, /*ledger=*/nullptr, request, call, response),
      absl::AlreadyExistsError("another spec"));
}

TEST(Submit, ChecksBeforeTheQueueSeesIt) {
  FakeManager manager;
  manager.OnSubmit([](const jobs::SubmitRequest&) {
    ADD_FAILURE() << "must not come here";
    return absl::InternalError("");
  });
  v1::SubmitResponse response;
  Call call = SomeCall();
  EXPECT_EQ(
      Submit(manager, manager, /*ledger=*/nullptr, {}, call, response).code(),
      kInvalid);
}

TEST(GetJob, HasAPlaceInTheQueueWhileQueued) {
  FakeManager manager;
  manager.Put("a", jobs::State::kQueued);
  manager.Put("b", jobs::State::kRunning);
  v1::GetJobRequest request;
  v1::Job queued, running;
  request.set_id("a");
  ASSERT_TRUE(GetJob(manager, Anybody(), request, queued).ok());
  EXPECT_EQ(queued.queue_position(), 4);
  request.set_id("b");
  ASSERT_TRUE(GetJob(manager, Anybody(), request, running).ok());
  EXPECT_FALSE(running.has_queue_position());
}

TEST(JobCalls, UnknownAndEmptyIds) {
  FakeManager manager;
  v1::GetJobRequest get;
  v1::CancelRequest cancel;
  v1::CheckpointsRequest checkpoints;
  v1::Job job;
  v1::CheckpointsResponse listed;
  EXPECT_EQ(GetJob(manager, Anybody(), get, job).code(), kInvalid);
  EXPECT_EQ(CancelJob(manager, manager, cancel, SomeCall(), job).code(),
            kInvalid);
  EXPECT_EQ(ListCheckpoints(manager, checkpoints, listed).code(), kInvalid);
  get.set_id("x");
  cancel.set_id("x");
  checkpoints.set_id("x");
  EXPECT_EQ(GetJob(manager, Anybody(), get, job).code(), kNotFound);
  EXPECT_EQ(CancelJob(manager, manager, cancel, SomeCall(), job).code(),
            kNotFound);
  EXPECT_EQ(ListCheckpoints(manager, checkpoints, listed).code(), kNotFound);
}

TEST(CancelJob, AnswersWithTheJob) {
  FakeManager manager;
  manager.Put("a", jobs::State::kRunning);
  v1::CancelRequest request;
  request.set_id("a");
  v1::Job job;
  ASSERT_TRUE(CancelJob(manager, manager, request, SomeCall(), job).ok());
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

TEST(PinJob, AnswersWithTheJob) {
  FakeManager manager;
  manager.Put("a", jobs::State::kFailed);
  v1::Job response;
  ASSERT_TRUE(PinJob(manager, manager, "a", true, SomeCall(), response).ok());
  EXPECT_TRUE(response.pinned());
  ASSERT_TRUE(PinJob(manager, manager, "a", false, SomeCall(), response).ok());
  EXPECT_FALSE(response.pinned());
  EXPECT_EQ(PinJob(manager, manager, "b", true, SomeCall(), response).code(),
            kNotFound);
  EXPECT_EQ(PinJob(manager, manager, "", true, SomeCall(), response).code(),
            kInvalid);
}

}  // namespace
}  // namespace mpsd::rpc
