// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/job_calls.h"

#include <sys/utsname.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/limits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/rpc/daemon_calls.h"
#include "server/rpc/list_calls.h"
#include "tests/server/rpc/fake_ledger.h"
#include "tests/server/rpc/proto_text.h"
#include "tests/server/rpc/served.h"

namespace mpsd::rpc {
namespace {

using access::Role;
using jobs::State;
using testing::ElementsAre;
using testing::HasSubstr;

class JobCallsTest : public testing::Test {
 protected:
  JobCallsTest() { submission_.set_spec_json("{\"model\": \"m\"}"); }

  absl::Status Submit(Call call = CallOf("ada"),
                      jobs::UserLedger* ledger = nullptr) {
    absl::Status status =
        rpc::Submit(manager_, manager_, ledger, submission_, call, submitted_);
    made_job_id_ = call.made_job_id;
    return status;
  }
  v1::Job Got(const std::string& id,
              const access::Rights& rights = RightsOf("ada")) {
    v1::Job job;
    EXPECT_TRUE(
        GetJob(manager_, rights, ById<v1::GetJobRequest>(id), job).ok());
    return job;
  }
  absl::Status Hold(const std::string& reason, const Call& call) {
    auto request = ById<v1::HoldRequest>("a");
    request.set_reason(reason);
    return HoldJob(manager_, manager_, request, call, job_);
  }
  absl::Status Move(const v1::MoveRequest& request, const Call& call) {
    return MoveJob(manager_, manager_, request, call, job_);
  }

  // What each call that names a job answers for this one.
  std::vector<absl::StatusCode> Codes(const std::string& id) {
    v1::CheckpointsResponse checkpoints;
    v1::DeleteResponse deleted;
    v1::SubmitRequest submission;
    auto move = ById<v1::MoveRequest>(id);
    move.set_top(true);
    const Call call = CallOf("ada");
    return {
        GetJob(manager_, call.rights, ById<v1::GetJobRequest>(id), job_).code(),
        CancelJob(manager_, manager_, ById<v1::CancelRequest>(id), call, job_)
            .code(),
        ListCheckpoints(manager_, ById<v1::CheckpointsRequest>(id), checkpoints)
            .code(),
        PinJob(manager_, manager_, id, true, call, job_).code(),
        HoldJob(manager_, manager_, ById<v1::HoldRequest>(id), call, job_)
            .code(),
        ReleaseJob(manager_, manager_, ById<v1::ReleaseRequest>(id), call, job_)
            .code(),
        Move(move, call).code(),
        DeleteJob(manager_, ById<v1::DeleteRequest>(id), deleted).code(),
        GetSubmission(manager_, ById<v1::GetSubmissionRequest>(id), submission)
            .code(),
        RetryJob(manager_, manager_, ById<v1::RetryRequest>(id), call, job_)
            .code()};
  }

  FakeManager manager_;
  v1::SubmitRequest submission_;
  v1::SubmitResponse submitted_;
  std::string made_job_id_;
  v1::Job job_;
};

TEST_F(JobCallsTest, ErrorsArePassedOn) {
  EXPECT_THAT(Codes(""), testing::Each(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Codes(std::string(65, 'x')),
              testing::Each(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Codes("none"), testing::Each(absl::StatusCode::kNotFound));
  manager_.Put("a", State::kRunning);
  // Hold, Release, Move, Delete and GetSubmission want another state.
  const std::vector<absl::StatusCode> running = Codes("a");
  EXPECT_THAT(std::vector(running.begin() + 4, running.end() - 1),
              testing::Each(absl::StatusCode::kFailedPrecondition));
}

TEST_F(JobCallsTest, SubmitAnswersWithTheQueuesJob) {
  manager_.OnSubmit([](const jobs::SubmitRequest& request) {
    EXPECT_EQ(request.spec_json, "{\"model\": \"m\"}");
    return jobs::SubmitResult{FakeManager::MakeJob("a", State::kQueued), true};
  });
  ASSERT_TRUE(Submit().ok());
  EXPECT_EQ(made_job_id_, "a");
  EXPECT_EQ(submitted_.job().id(), "a");
  EXPECT_EQ(submitted_.job().queue_position(), 4);
  EXPECT_TRUE(submitted_.existed());
  manager_.OnSubmit([](const jobs::SubmitRequest&) {
    return absl::AlreadyExistsError("another spec");
  });
  EXPECT_EQ(Submit(), absl::AlreadyExistsError("another spec"));
  submission_.clear_spec_json();
  EXPECT_TRUE(absl::IsInvalidArgument(Submit())) << "before the queue sees it";
}

TEST_F(JobCallsTest, AJobIsOwnedByWhoSubmitsIt) {
  for (const char* named : {"", "ada"}) {
    submission_.set_owner(named);
    ASSERT_TRUE(Submit().ok());
    EXPECT_EQ(submitted_.job().owner(), "ada");
    EXPECT_EQ(manager_.last().submission.owner, "ada");
    EXPECT_FALSE(manager_.last().submission.may_read_job);
    EXPECT_FALSE(manager_.last().submission.may_use_blob);
  }
  manager_.OnSubmit([](const jobs::SubmitRequest&) {
    ADD_FAILURE() << "must not come here";
    return absl::InternalError("");
  });
  submission_.set_owner("bob");
  const absl::Status refused = Submit();
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(refused.message(),
            "owner: 'bob' is not you (ada): a job is owned by who submits it; "
            "leave the field out, as mpsctl does since it has logins");
}

TEST_F(JobCallsTest, WhereJobsArePrivateSubmitReadsOwnOnesAlone) {
  FakeLedger ledger;
  ledger.Send("ada", std::string(64, 'a'));
  ledger.Send("bob", std::string(64, 'b'));
  manager_.Put("own", State::kSucceeded, "ada");
  manager_.Put("another", State::kSucceeded);
  manager_.OnSubmit([](const jobs::SubmitRequest& request) {
    EXPECT_TRUE(request.may_read_job("own"));
    EXPECT_FALSE(request.may_read_job("another"));
    EXPECT_FALSE(request.may_read_job("none"));
    EXPECT_TRUE(request.may_use_blob(std::string(64, 'a')));
    EXPECT_FALSE(request.may_use_blob(std::string(64, 'b')));
    return jobs::SubmitResult{FakeManager::MakeJob("a", State::kQueued), false};
  });
  EXPECT_TRUE(Submit(CallOf("ada", /*private_jobs=*/true), &ledger).ok());
}

TEST_F(JobCallsTest, GetSaysWhatKeepsAJobFromTrainingAndItsPlace) {
  manager_.Put("queued", State::kQueued);
  manager_.Put("running", State::kRunning);
  manager_.Put("over", State::kFailed);
  EXPECT_FALSE(Got("running").has_pause());
  jobs::ManagerInfo info;
  info.pause.reasons = {jobs::PauseReason::kBattery};
  info.hold = "the disk is full";
  manager_.SetInfo(info);
  EXPECT_EQ(Got("running").pause().reasons(0), v1::PAUSE_REASON_BATTERY);
  EXPECT_FALSE(Got("running").has_queue_position());
  EXPECT_EQ(Got("queued").hold(), "the disk is full");
  EXPECT_EQ(Got("queued").queue_position(), 4);
  EXPECT_FALSE(Got("over").has_pause());
  EXPECT_EQ(Got("over").hold(), "");
}

TEST_F(JobCallsTest, GetShowsThePublicPartOfAPrivateJob) {
  jobs::Job job = FakeManager::MakeJob("a", State::kRunning, "bob");
  job.name = job.message = "secret";
  job.priority = 7;
  manager_.Put(job);
  jobs::ManagerInfo info;
  info.hold = "/secret is away";
  manager_.SetInfo(info);
  EXPECT_EQ(Got("a").name(), "secret");
  EXPECT_EQ(Got("a").spec_json(), "{}");
  const v1::Job hidden = Got("a", RightsOf("ada", /*private_jobs=*/true));
  EXPECT_EQ(hidden.owner(), "bob");
  EXPECT_EQ(hidden.priority(), 7);
  EXPECT_EQ(hidden.state(), v1::JOB_STATE_RUNNING);
  EXPECT_EQ(hidden.DebugString().find("secret"), std::string::npos);
  EXPECT_EQ(hidden.spec_json(), "");
}

TEST_F(JobCallsTest, CancelAndPinAnswerWithTheJob) {
  manager_.Put("a", State::kRunning);
  const Call call = CallOf("ada");
  auto cancel = ById<v1::CancelRequest>("a");
  ASSERT_TRUE(CancelJob(manager_, manager_, cancel, call, job_).ok());
  EXPECT_TRUE(job_.cancel_requested());
  EXPECT_EQ(job_.state(), v1::JOB_STATE_RUNNING);
  cancel.set_now(true);
  ASSERT_TRUE(CancelJob(manager_, manager_, cancel, call, job_).ok());
  EXPECT_EQ(job_.state(), v1::JOB_STATE_CANCELLED);
  for (const bool pinned : {true, false}) {
    ASSERT_TRUE(PinJob(manager_, manager_, "a", pinned, call, job_).ok());
    EXPECT_EQ(job_.pinned(), pinned);
  }
  v1::DeleteResponse deleted;
  EXPECT_TRUE(DeleteJob(manager_, ById<v1::DeleteRequest>("a"), deleted).ok());
  EXPECT_EQ(deleted.freed_bytes(), 42);
}

TEST_F(JobCallsTest, CheckpointsKeepTheirOrder) {
  manager_.Put("a", State::kRunning);
  manager_.AddCheckpoint("a", {{5, "/c/5", 1, 1}, absl::UnixEpoch()});
  manager_.AddCheckpoint("a", {{10, "/c/10", 1, 1}, absl::UnixEpoch()});
  v1::CheckpointsResponse response;
  ASSERT_TRUE(
      ListCheckpoints(manager_, ById<v1::CheckpointsRequest>("a"), response)
          .ok());
  ASSERT_EQ(response.checkpoints().size(), 2);
  EXPECT_EQ(response.checkpoints(0).step(), 5);
  EXPECT_EQ(response.checkpoints(1).path(), "/c/10");
}

TEST_F(JobCallsTest, ASubmissionIsTheRequestThatWasKept) {
  manager_.Put("a", State::kFailed);
  jobs::SubmitRequest kept;
  kept.spec_json = "{\"model\": \"m\"}";
  kept.owner = "ada";
  kept.idempotency_key = "key";
  manager_.PutRequest("a", kept);
  v1::SubmitRequest answer;
  ASSERT_TRUE(
      GetSubmission(manager_, ById<v1::GetSubmissionRequest>("a"), answer)
          .ok());
  EXPECT_THAT(answer, EqualsProto(R"pb(spec_json: "{\"model\": \"m\"}"
                                       kind: JOB_KIND_TRAINING)pb"));
}

TEST_F(JobCallsTest, HoldSaysWhoHoldsAndWhy) {
  manager_.Put("a", State::kQueued);
  ASSERT_TRUE(Hold("", CallOf("ada")).ok());
  EXPECT_TRUE(job_.held());
  EXPECT_EQ(manager_.Get("a")->hold_reason, "by ada");
  ASSERT_TRUE(Hold("no data", CallOf("ada")).ok());
  EXPECT_EQ(manager_.Get("a")->hold_reason, "by ada: no data");
  ASSERT_TRUE(Hold("no data", CallOf("")).ok());
  EXPECT_EQ(manager_.Get("a")->hold_reason, "by an unnamed user: no data");
  EXPECT_TRUE(Hold(std::string(limits::kReasonBytes, 'x'), CallOf("ada")).ok());
  for (const std::string& bad :
       {std::string(limits::kReasonBytes + 1, 'x'), std::string("a\x1b[2J"),
        std::string("two\nlines"), std::string("a\0b", 3)}) {
    const absl::Status status = Hold(bad, CallOf("ada"));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("reason: "));
  }
}

TEST_F(JobCallsTest, MoveGoesOneWayWithinTheCallersLimits) {
  manager_.Put("a", State::kQueued);
  Call ada = CallOf("ada");
  ada.limits.highest_priority = 3;
  auto request = ById<v1::MoveRequest>("a");
  EXPECT_TRUE(absl::IsInvalidArgument(Move(request, ada)));
  request.set_top(false);
  EXPECT_TRUE(absl::IsInvalidArgument(Move(request, ada)));
  request.set_bottom(false);
  EXPECT_TRUE(absl::IsInvalidArgument(Move(request, ada)));
  request.set_top(true);
  ASSERT_TRUE(Move(request, ada).ok());
  EXPECT_EQ(manager_.last().move.where, jobs::MoveTo::Where::kTop);
  EXPECT_FALSE(manager_.last().move.among_all);
  request.set_priority(-7);
  ASSERT_TRUE(Move(request, ada).ok());
  EXPECT_EQ(job_.priority(), -7);
  EXPECT_EQ(manager_.last().limits.highest_priority, 3);
  // An admin's top and bottom count among all.
  request.set_bottom(true);
  ASSERT_TRUE(Move(request, CallOf("root", false, Role::kAdmin)).ok());
  EXPECT_EQ(manager_.last().move.where, jobs::MoveTo::Where::kBottom);
  EXPECT_TRUE(manager_.last().move.among_all);
}

TEST_F(JobCallsTest, RetryPassesTheWishAndTheLimitsOn) {
  manager_.Put("a", State::kSucceeded);
  auto request = ById<v1::RetryRequest>("a");
  request.set_from_scratch(true);
  Call call = CallOf("ada");
  call.limits.queued_jobs = 5;
  ASSERT_TRUE(RetryJob(manager_, manager_, request, call, job_).ok());
  EXPECT_EQ(job_.state(), v1::JOB_STATE_QUEUED);
  EXPECT_TRUE(manager_.Get("a")->fresh);
  EXPECT_EQ(manager_.last().limits.queued_jobs, 5);
  EXPECT_TRUE(absl::IsFailedPrecondition(
      RetryJob(manager_, manager_, request, call, job_)));
}

TEST_F(JobCallsTest, DrainSaysWhoAndWhy) {
  v1::DrainRequest request;
  ASSERT_TRUE(DrainQueue(manager_, request, CallOf("root")).ok());
  EXPECT_EQ(manager_.Info().hold, "mpsd is drained by root");
  request.set_reason("a new disk");
  ASSERT_TRUE(DrainQueue(manager_, request, CallOf("root")).ok());
  EXPECT_EQ(manager_.Info().hold, "mpsd is drained by root: a new disk");
  request.set_reason(std::string(limits::kReasonBytes + 1, 'x'));
  EXPECT_TRUE(
      absl::IsInvalidArgument(DrainQueue(manager_, request, CallOf("root"))));
}

class ShowQueueTest : public JobCallsTest {
 protected:
  v1::QueueResponse Ask(const std::string& user = "ann",
                        bool private_jobs = false) {
    manager_.SetListing(listing_);
    v1::QueueResponse response;
    EXPECT_TRUE(
        ShowQueue(manager_, RightsOf(user, private_jobs), {}, response).ok());
    return response;
  }
  jobs::QueueListing listing_;
};

TEST_F(ShowQueueTest, TellsEachPlaceAndWhoUsedHowMuch) {
  const absl::Time now = absl::FromUnixSeconds(1'700'000'000);
  listing_.half_life = absl::Hours(24);
  EXPECT_THAT(Ask(), EqualsProto("half_life_seconds: 86400"));
  EXPECT_EQ(manager_.last().queue_limit,
            static_cast<size_t>(limits::kQueueEntries));
  jobs::QueuePlace place;
  place.id = "01A";
  place.name = "moods\xff";
  place.owner = "ann";
  place.priority = -3;
  place.state = State::kQueued;
  place.since = now;
  place.why = "priority -3";
  place.hold = "its model is away";
  place.not_before = now + absl::Seconds(30);
  listing_.places = {place, jobs::QueuePlace()};
  listing_.places[1].state = State::kRunning;
  listing_.places[1].since = now;
  listing_.more = 12;
  listing_.usage = {{"ann", 7200.5, now}, {"bob", 60, now}};
  EXPECT_THAT(Ask(), EqualsProto(R"pb(
                entries {
                  id: "01A"
                  name: "moods\uFFFD"
                  owner: "ann"
                  priority: -3
                  state: JOB_STATE_QUEUED
                  queue_time { seconds: 1700000000 }
                  why: "priority -3"
                  hold: "its model is away"
                  not_before { seconds: 1700000030 }
                }
                entries {
                  state: JOB_STATE_RUNNING
                  queue_time { seconds: 1700000000 }
                }
                more: 12
                usage { owner: "ann" seconds: 7200.5 }
                usage { owner: "bob" seconds: 60 }
                half_life_seconds: 86400)pb"));
}

TEST_F(ShowQueueTest, OfPrivateJobsOthersSeeThePlaceAlone) {
  jobs::QueuePlace place;
  place.id = "01A";
  place.name = "secret plan";
  place.owner = "ann";
  place.why = "priority 0";
  place.hold = "ann.s model is away";
  listing_.places = {place};
  EXPECT_EQ(Ask("ann", true).entries(0).name(), "secret plan");
  EXPECT_EQ(Ask("bob", false).entries(0).name(), "secret plan");
  const v1::QueueResponse::Entry entry = Ask("bob", true).entries(0);
  EXPECT_EQ(entry.name(), "");
  EXPECT_EQ(entry.hold(), "");
  EXPECT_EQ(entry.id(), "01A");
  EXPECT_EQ(entry.owner(), "ann");
  EXPECT_EQ(entry.why(), "priority 0");
}

TEST(DaemonInfo, HasEveryField) {
  FakeManager manager;
  jobs::ManagerInfo info;
  info.worker_version = "0.1.0";
  info.torch_version = "2.15.0";
  info.device = "mps";
  info.memory.footprint_bytes = 7;
  info.jobs = {{State::kQueued, 3}, {State::kRunning, 1}};
  info.running_job_id = "a";
  info.hold = "the disk is full\xff";
  info.hold_reason = "disk";
  info.drained = true;
  info.host.gpu_resets = 3;
  info.pause.reasons = {jobs::PauseReason::kThermal};
  manager.SetInfo(info);
  v1::InfoResponse response;
  ASSERT_TRUE(DaemonInfo(manager, SomeFacts("/"), response).ok());
  struct utsname name;
  ASSERT_EQ(uname(&name), 0);
  EXPECT_THAT(response.platform(), testing::StartsWith(name.sysname));
  EXPECT_THAT(response.platform(), testing::EndsWith(name.machine));
  EXPECT_GT(response.disk_free_bytes(), 0);
  EXPECT_EQ(response.pause().reasons(0), v1::PAUSE_REASON_THERMAL);
  response.clear_platform();
  response.clear_disk_free_bytes();
  response.clear_pause();
  EXPECT_THAT(response, EqualsProto(R"pb(
                version: "0.1.0"
                worker_version: "0.1.0"
                torch_version: "2.15.0"
                device: "mps"
                start_time { seconds: 1700000000 }
                state_dir: "/"
                metrics_address: "127.0.0.1:9464"
                metrics_tls: true
                page_address: "127.0.0.1:9465"
                schema_version: 1
                protocol_version: 1
                queued_jobs: 3
                running_jobs: 1
                running_job_id: "a"
                memory { footprint_bytes: 7 }
                hold: "the disk is full\uFFFD"
                hold_reason: "disk"
                drained: true
                host { gpu_resets: 3 })pb"));
  response.Clear();
  ASSERT_TRUE(DaemonInfo(manager, SomeFacts("/absent"), response).ok());
  EXPECT_EQ(response.disk_free_bytes(), 0) << "no error";
}

class CollectCallsTest : public testing::Test {
 protected:
  CollectCallsTest() {
    const std::string sha256(64, 'a');
    collector_.plan.items = {
        {jobs::Collected::kBlob, sha256, "", "", 5, "an upload"},
        {jobs::Collected::kCheckpoints, "a", "ada", "mine", 6, "it is old"},
        {jobs::Collected::kJob, "b", "bob", "theirs", 7, "it is old"},
        {jobs::Collected::kPartialUpload, sha256, "bob", "", 8, "it broke off"},
        {jobs::Collected::kPartialUpload, sha256, "ada", "", 9, "likewise"}};
    collector_.plan.more = int64_t{5'000'000'000};
    collector_.plan.freed_bytes = 18;
    collector_.plan.used_bytes = 100;
    collector_.plan.budget_bytes = 90;
    collector_.plan.short_of = "pinned jobs";
  }
  v1::PlanCollectionResponse Plan(const access::Rights& rights) {
    v1::PlanCollectionResponse response;
    absl::Status told = PlanCollection(&collector_, rights, response);
    EXPECT_TRUE(told.ok()) << told;
    return response;
  }

  FakeCollector collector_;
};

TEST_F(CollectCallsTest, APlanIsToldWhole) {
  const auto plan = Plan(RightsOf("ada", false, Role::kViewer));
  ASSERT_EQ(plan.items_size(), 5);
  EXPECT_EQ(plan.items(0).kind(), v1::CollectionItem::KIND_BLOB);
  EXPECT_EQ(plan.items(0).id(), std::string(64, 'a'));
  EXPECT_EQ(plan.items(1).kind(), v1::CollectionItem::KIND_CHECKPOINTS);
  EXPECT_THAT(plan.items(2), EqualsProto(R"pb(
                kind: KIND_JOB
                id: "b"
                owner: "bob"
                name: "theirs"
                size_bytes: 7
                why: "it is old")pb"));
  EXPECT_EQ(plan.more(), INT32_MAX);
  EXPECT_EQ(plan.freed_bytes(), 18);
  EXPECT_EQ(plan.used_bytes(), 100);
  EXPECT_EQ(plan.budget_bytes(), 90);
  EXPECT_EQ(plan.short_of(), "pinned jobs");
}

TEST_F(CollectCallsTest, OfPrivateJobsOnlyTheirPublicPart) {
  const auto plan = Plan(RightsOf("ada", true));
  ASSERT_EQ(plan.items_size(), 5);
  EXPECT_EQ(plan.items(0).id(), "") << "a SHA-256 tells what others have";
  EXPECT_EQ(plan.items(0).size_bytes(), 5);
  EXPECT_EQ(plan.items(1).name(), "mine");
  EXPECT_EQ(plan.items(2).id(), "b");
  EXPECT_EQ(plan.items(2).owner(), "bob");
  EXPECT_EQ(plan.items(2).name(), "");
  EXPECT_EQ(plan.items(3).id(), "");
  EXPECT_EQ(plan.items(4).id(), std::string(64, 'a'));
  const auto admins = Plan(RightsOf("ada", true, Role::kAdmin));
  EXPECT_EQ(admins.items(2).name(), "theirs");
  EXPECT_NE(admins.items(0).id(), "");
}

TEST_F(CollectCallsTest, ACollectionSaysWhatWentAndWhatDidNot) {
  collector_.result = {3, 40, {"job c: it is pinned"}};
  v1::CollectResponse response;
  v1::PlanCollectionResponse plan;
  Call call = CallOf("ada", false, Role::kAdmin);
  call.wanted = [] { return absl::CancelledError("gone"); };
  ASSERT_TRUE(Collect(&collector_, call, response).ok());
  EXPECT_EQ(response.removed(), 3);
  EXPECT_EQ(response.freed_bytes(), 40);
  EXPECT_THAT(response.failed(), ElementsAre("job c: it is pinned"));
  EXPECT_TRUE(absl::IsCancelled(collector_.was_wanted));
  collector_.failure = absl::UnavailableError("the disk");
  EXPECT_TRUE(
      absl::IsUnavailable(PlanCollection(&collector_, call.rights, plan)));
  EXPECT_TRUE(absl::IsUnavailable(Collect(&collector_, call, response)));
  EXPECT_TRUE(
      absl::IsUnimplemented(PlanCollection(nullptr, call.rights, plan)));
  EXPECT_TRUE(absl::IsUnimplemented(Collect(nullptr, call, response)));
}

}  // namespace
}  // namespace mpsd::rpc
