// SPDX-License-Identifier: Apache-2.0
// The calls about jobs and the queue: requests, effects, answers.
#include "server/rpc/job_calls.h"

#include <sys/utsname.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/limits.h"
#include "tests/server/rpc/api.h"

namespace mpsd::rpc {
namespace {

// The call of `method` for a job.
template <typename S, typename Request, typename Response>
absl::StatusOr<Response> Call(
    const Api& api,
    grpc::Status (S::*method)(grpc::ClientContext*, const Request&, Response*),
    const std::string& id, const std::string& more = "") {
  auto request = Parsed<Request>(more);
  request.set_id(id);
  return api.Call(method, request);
}

class JobCallsTest : public testing::Test {
 protected:
  explicit JobCallsTest(InProcessDaemon::Options options = {})
      : daemon_(WithLimits(std::move(options))) {}
  static InProcessDaemon::Options WithLimits(InProcessDaemon::Options options) {
    options.limits.users["ada"].highest_priority = 3;
    options.scheduler.pause.on_battery = true;
    return options;
  }

  absl::StatusOr<v1::SubmitResponse> Submit(const std::string& more = "",
                                            const Api* by = nullptr) {
    auto request = Parsed<v1::SubmitRequest>(more);
    if (request.spec_json().empty()) request.set_spec_json(daemon_.Spec());
    return (by == nullptr ? ada_ : *by).Call(&Jobs::Submit, request);
  }
  // What each call that names a job answers for this one.
  std::vector<StatusCode> Codes(const std::string& id) {
    return {Call(ada_, &Jobs::Get, id).status().code(),
            Call(ada_, &Jobs::Cancel, id).status().code(),
            Call(ada_, &Jobs::Checkpoints, id).status().code(),
            Call(ada_, &Jobs::Pin, id).status().code(),
            Call(ada_, &Jobs::Hold, id).status().code(),
            Call(ada_, &Jobs::Release, id).status().code(),
            Call(ada_, &Jobs::Move, id, "top: true").status().code(),
            Call(ada_, &Jobs::Delete, id).status().code(),
            Call(ada_, &Jobs::GetSubmission, id).status().code(),
            Call(ada_, &Jobs::Retry, id).status().code()};
  }
  std::vector<std::string> Order() {
    std::vector<std::string> ids;
    const auto answer = Ok(ada_.Call(&Jobs::Queue));
    for (const auto& entry : answer.entries()) {
      ids.push_back(entry.id());
    }
    return ids;
  }

  InProcessDaemon daemon_;
  const Api ada_ = daemon_.As("ada"), root_ = daemon_.As("root", Role::kAdmin);
};

TEST_F(JobCallsTest, ErrorsArePassedOn) {
  EXPECT_THAT(Codes(""), testing::Each(StatusCode::kInvalidArgument));
  EXPECT_THAT(Codes(std::string(65, 'x')),
              testing::Each(StatusCode::kInvalidArgument));
  EXPECT_THAT(Codes("none"), testing::Each(StatusCode::kNotFound));
  // Hold, Release, Move and Delete want another state.
  const std::vector<StatusCode> running =
      Codes(daemon_.Start({.owner = "ada"}));
  EXPECT_THAT(std::vector(running.begin() + 4, running.begin() + 8),
              testing::Each(StatusCode::kFailedPrecondition));
}

TEST_F(JobCallsTest, SubmitAnswersWithTheQueuesJob) {
  daemon_.Submit();
  const v1::SubmitResponse made =
      Ok(Submit("idempotency_key: 'k' priority: 2 labels { key: 'a' value: 'b' "
                "} held: true"));
  EXPECT_EQ(made.job().state(), v1::JOB_STATE_QUEUED);
  EXPECT_EQ(made.job().owner(), "ada");
  EXPECT_EQ(made.job().priority(), 2);
  EXPECT_EQ(made.job().labels().at("a"), "b");
  EXPECT_TRUE(made.job().held());
  EXPECT_EQ(made.job().queue_position(), 0);
  EXPECT_FALSE(made.existed());
  const v1::SubmitResponse again =
      Ok(Submit("idempotency_key: 'k' priority: 2 labels { key: 'a' value: 'b' "
                "} held: true owner: 'ada'"));
  EXPECT_EQ(again.job().id(), made.job().id());
  EXPECT_TRUE(again.existed());
  EXPECT_THAT(Submit("idempotency_key: 'k' priority: 1"),
              Fails(StatusCode::kAlreadyExists));
  EXPECT_THAT(ada_.Call(&Jobs::Submit),
              Fails(StatusCode::kInvalidArgument, "spec_json"));
  EXPECT_THAT(
      Submit("owner: 'bob'"),
      Fails(StatusCode::kPermissionDenied,
            "owner: 'bob' is not you (ada): a job is owned by who submits it; "
            "leave the field out, as mpsctl does since it has logins"));
}

TEST_F(JobCallsTest, GetSaysWhatKeepsAJobFromTrainingAndItsPlace) {
  daemon_.machine.reading.power_source = host::PowerSource::kMains;
  const std::string running = daemon_.Start(), queued = daemon_.Submit();
  EXPECT_FALSE(Ok(Call(ada_, &Jobs::Get, running)).has_pause());
  EXPECT_EQ(Ok(Call(ada_, &Jobs::Get, queued)).queue_position(), 0);
  daemon_.machine.reading.power_source = host::PowerSource::kBattery;
  daemon_.After(absl::Seconds(5));
  const v1::Job paused = Ok(Call(ada_, &Jobs::Get, running));
  EXPECT_EQ(paused.pause().reasons(0), v1::PAUSE_REASON_BATTERY);
  EXPECT_FALSE(paused.has_queue_position());
  daemon_.machine.reading.power_source = host::PowerSource::kMains;
  daemon_.After(absl::Minutes(5));
  daemon_.launcher.ready = absl::UnavailableError("the device is taken");
  daemon_.End();
  EXPECT_THAT(Ok(Call(ada_, &Jobs::Get, queued)).hold(),
              HasSubstr("the device is taken"));
  const v1::Job over = Ok(Call(ada_, &Jobs::Get, running));
  EXPECT_EQ(over.hold(), "");
  EXPECT_FALSE(over.has_pause());
}

TEST_F(JobCallsTest, VerbsAnswerWithTheJob) {
  const std::string running = daemon_.Start({.owner = "ada"});
  daemon_.Step(5);
  daemon_.Checkpoint(5);
  daemon_.Checkpoint(10);
  const v1::CheckpointsResponse checkpoints =
      Ok(Call(ada_, &Jobs::Checkpoints, running));
  ASSERT_THAT(checkpoints.checkpoints(), SizeIs(2));
  EXPECT_EQ(checkpoints.checkpoints(0).step(), 5);
  EXPECT_THAT(checkpoints.checkpoints(1).path(), HasSubstr("checkpoint-10"));
  EXPECT_TRUE(Ok(Call(ada_, &Jobs::Pin, running)).pinned());
  EXPECT_FALSE(Ok(Call(ada_, &Jobs::Unpin, running)).pinned());
  EXPECT_TRUE(Ok(Call(ada_, &Jobs::Cancel, running)).cancel_requested());
  EXPECT_GT(daemon_.launcher.grace, absl::ZeroDuration());
  EXPECT_THAT(Call(ada_, &Jobs::Cancel, running, "now: true"), IsOk());
  EXPECT_EQ(daemon_.launcher.grace, absl::ZeroDuration());
  daemon_.End(ExitReason::kCancelled);
  EXPECT_EQ(Ok(Call(ada_, &Jobs::Retry, running, "from_scratch: true")).state(),
            v1::JOB_STATE_QUEUED);
  EXPECT_TRUE(daemon_.Stored(running).fresh);
  EXPECT_THAT(Call(ada_, &Jobs::Retry, running),
              Fails(StatusCode::kFailedPrecondition));
  EXPECT_EQ(Ok(Call(ada_, &Jobs::Cancel, running)).state(),
            v1::JOB_STATE_CANCELLED);
  EXPECT_GT(Ok(Call(ada_, &Jobs::Delete, running)).freed_bytes(), 0);
}

TEST_F(JobCallsTest, ASubmissionIsTheRequestThatWasKept) {
  v1::SubmitRequest request;
  request.set_spec_json(daemon_.Spec("mine"));
  request.set_idempotency_key("key");
  request.set_priority(2);
  const std::string id = Ok(ada_.Call(&Jobs::Submit, request)).job().id();
  request.clear_idempotency_key();
  request.set_kind(v1::JOB_KIND_TRAINING);
  EXPECT_THAT(Ok(Call(ada_, &Jobs::GetSubmission, id)),
              EqualsProto(request.DebugString()));
  const jobs::Job old = InProcessDaemon::MakeJob(1, State::kFailed, "ada");
  daemon_.Put(old);
  EXPECT_THAT(Call(ada_, &Jobs::GetSubmission, old.id),
              Fails(StatusCode::kFailedPrecondition));
}

TEST_F(JobCallsTest, HoldAndDrainSayWhoAndWhy) {
  const std::string id = daemon_.Submit({.owner = "ada"});
  const auto hold = [&](const std::string& reason) {
    auto request = ById<v1::HoldRequest>(id);
    request.set_reason(reason);
    return ada_.Call(&Jobs::Hold, request);
  };
  const auto drain = [&](const std::string& reason) {
    v1::DrainRequest request;
    request.set_reason(reason);
    return root_.Call(&DaemonApi::Drain, request).status();
  };
  EXPECT_TRUE(Ok(hold("")).held());
  EXPECT_EQ(daemon_.Stored(id).hold_reason, "by ada");
  EXPECT_EQ(Ok(hold("no data")).hold(), "by ada: no data");
  EXPECT_FALSE(Ok(Call(ada_, &Jobs::Release, id)).held());
  EXPECT_THAT(drain(""), IsOk());
  EXPECT_EQ(daemon_.board->Info().hold, "mpsd is drained by root");
  EXPECT_THAT(drain("a new disk"), IsOk());
  EXPECT_EQ(daemon_.board->Info().hold, "mpsd is drained by root: a new disk");
  EXPECT_THAT(root_.Call(&DaemonApi::Undrain), IsOk());
  EXPECT_EQ(daemon_.board->Info().hold, "");
  EXPECT_THAT(hold(std::string(limits::kReasonBytes, 'x')), IsOk());
  for (const std::string& bad :
       {std::string(limits::kReasonBytes + 1, 'x'), std::string("a\x1b[2J"),
        std::string("two\nlines"), std::string("a\0b", 3)}) {
    EXPECT_THAT(hold(bad), Fails(StatusCode::kInvalidArgument, "reason: "));
    EXPECT_THAT(drain(bad), Fails(StatusCode::kInvalidArgument, "reason: "));
  }
}

TEST_F(JobCallsTest, MoveHasOneTargetWithinTheCallersLimits) {
  const std::string bobs = daemon_.Submit({.owner = "bob"}),
                    first = daemon_.Submit({.owner = "ada"}),
                    second = daemon_.Submit({.owner = "ada"});
  for (const char* nowhere : {"", "top: false", "bottom: false"}) {
    EXPECT_THAT(Call(ada_, &Jobs::Move, first, nowhere),
                Fails(StatusCode::kInvalidArgument));
  }
  EXPECT_THAT(Call(ada_, &Jobs::Move, second, "top: true"), IsOk());
  EXPECT_THAT(Order(), ElementsAre(bobs, second, first)) << "among her own";
  EXPECT_THAT(Call(root_, &Jobs::Move, first, "top: true"), IsOk());
  EXPECT_THAT(Order(), ElementsAre(first, bobs, second)) << "among all";
  EXPECT_THAT(Call(root_, &Jobs::Move, first, "bottom: true"), IsOk());
  EXPECT_THAT(Order(), ElementsAre(bobs, second, first));
  EXPECT_EQ(Ok(Call(ada_, &Jobs::Move, first, "priority: -7")).priority(), -7);
  EXPECT_THAT(Call(ada_, &Jobs::Move, first, "priority: 4"),
              Fails(StatusCode::kInvalidArgument, "priority"));
}

TEST_F(JobCallsTest, QueueShowsEachPlaceAndWhoUsedHowMuch) {
  const std::string running = daemon_.Start({.owner = "bob", .name = "his"}),
                    held = daemon_.Submit(
                        {.name = "moods", .priority = -3, .held = true});
  const v1::QueueResponse queue = Ok(ada_.Call(&Jobs::Queue));
  ASSERT_THAT(queue.entries(), SizeIs(2));
  EXPECT_EQ(queue.entries(0).id(), running);
  EXPECT_EQ(queue.entries(0).state(), v1::JOB_STATE_RUNNING);
  EXPECT_EQ(queue.entries(0).name(), "his");
  EXPECT_EQ(queue.entries(1).id(), held);
  EXPECT_EQ(queue.entries(1).name(), "moods");
  EXPECT_EQ(queue.entries(1).owner(), "ann");
  EXPECT_EQ(queue.entries(1).priority(), -3);
  EXPECT_EQ(queue.entries(1).queue_time().seconds(),
            absl::ToUnixSeconds(daemon_.clock.Now()));
  EXPECT_NE(queue.entries(1).hold(), "");
  EXPECT_NE(queue.entries(1).why(), "");
}

TEST_F(JobCallsTest, InfoHasEveryField) {
  daemon_.machine.reading.gpu_resets = 3;
  const std::string id = daemon_.Start();
  daemon_.Submit();
  daemon_.worker().OnHello({1, "0.1.0", "2.15.0"});
  daemon_.worker().OnDevice("mps");
  daemon_.After(absl::Seconds(5));
  EXPECT_THAT(root_.Call(&DaemonApi::Drain), IsOk());
  v1::InfoResponse info = Ok(ada_.Call(&DaemonApi::Info));
  struct utsname name;
  ASSERT_EQ(uname(&name), 0);
  EXPECT_THAT(info.platform(), StartsWith(name.sysname));
  EXPECT_THAT(info.platform(), testing::EndsWith(name.machine));
  EXPECT_GT(info.disk_free_bytes(), 0);
  info.clear_platform();
  info.clear_disk_free_bytes();
  info.clear_memory();
  info.clear_state_bytes();
  info.clear_state_budget_bytes();
  EXPECT_THAT(
      info, EqualsProto(absl::StrCat(
                R"pb(version: "0.1.0"
                     worker_version: "0.1.0"
                     torch_version: "2.15.0"
                     device: "mps"
                     start_time { seconds: 1767225600 }
                     metrics_address: "127.0.0.1:9464"
                     metrics_tls: true
                     page_address: "127.0.0.1:9465"
                     protocol_version: 1
                     queued_jobs: 1
                     running_jobs: 1
                     hold: "mpsd is drained by root"
                     hold_reason: "drained"
                     drained: true
                     host { gpu_resets: 3 })pb",
                " state_dir: '", daemon_.folder.string(), "' running_job_id: '",
                id, "' schema_version: ", daemon_.database->schema_version())));
}

class PrivateJobsTest : public JobCallsTest {
 protected:
  PrivateJobsTest() : JobCallsTest({.private_jobs = true}) {}
};

TEST_F(PrivateJobsTest, SubmitReadsOwnJobsAndBlobsAlone) {
  const std::string own = daemon_.Submit({.owner = "ada"}),
                    bobs = daemon_.Submit({.owner = "bob"});
  EXPECT_THAT(Submit(absl::StrCat("after: '", own, "'")), IsOk());
  EXPECT_FALSE(Submit(absl::StrCat("after: '", bobs, "'")).ok());
  const auto with_input = [&](const std::string& sha256) {
    v1::SubmitRequest request;
    request.set_spec_json(
        absl::StrCat(R"({"model": ")", daemon_.model().string(),
                     R"(", "dataset": {"train": "t.jsonl"}})"));
    request.add_inputs()->set_path("t.jsonl");
    request.mutable_inputs(0)->set_sha256(sha256);
    return ada_.Call(&Jobs::Submit, request);
  };
  EXPECT_THAT(with_input(daemon_.PutBlob("{\"text\": \"a\"}\n", "ada")),
              IsOk());
  EXPECT_FALSE(with_input(daemon_.PutBlob("{\"text\": \"b\"}\n", "bob")).ok());
}

TEST_F(PrivateJobsTest, OthersSeeThePublicPartAlone) {
  const std::string id =
      daemon_.Start({.owner = "bob", .name = "secret", .priority = 7});
  EXPECT_EQ(Ok(Call(root_, &Jobs::Get, id)).name(), "secret");
  const v1::Job hidden = Ok(Call(ada_, &Jobs::Get, id));
  EXPECT_EQ(hidden.owner(), "bob");
  EXPECT_EQ(hidden.priority(), 7);
  EXPECT_EQ(hidden.state(), v1::JOB_STATE_RUNNING);
  EXPECT_THAT(hidden.DebugString(), Not(HasSubstr("secret")));
  EXPECT_EQ(hidden.spec_json(), "");
  const v1::QueueResponse::Entry place = Ok(ada_.Call(&Jobs::Queue)).entries(0);
  EXPECT_EQ(place.id(), id);
  EXPECT_EQ(place.owner(), "bob");
  EXPECT_EQ(place.name(), "");
  EXPECT_EQ(Ok(root_.Call(&Jobs::Queue)).entries(0).name(), "secret");
}

// What rules remove, and who is shown what of it.
class CollectCallsTest : public testing::Test {
 protected:
  static InProcessDaemon::Options Rules(bool private_jobs) {
    InProcessDaemon::Options options;
    options.private_jobs = private_jobs;
    options.limits.others.keep.jobs = 0;
    options.budget_bytes = 90;
    return options;
  }
  static v1::PlanCollectionResponse Plan(const Api& api) {
    return Ok(api.Call(&DaemonApi::PlanCollection));
  }
};

TEST_F(CollectCallsTest, APlanIsReportedInFullAndCarriedOut) {
  InProcessDaemon daemon(Rules(false));
  daemon.Ended({.owner = "ada", .name = "mine"});
  daemon.Ended({.owner = "bob", .name = "theirs"});
  const std::string sha256 = daemon.PutBlob("nobody's");
  daemon.folders->Set(100, {});
  const auto plan = Plan(daemon.As("ada", Role::kViewer));
  ASSERT_THAT(plan.items(), SizeIs(3));
  std::vector<std::string> items;
  for (const v1::CollectionItem& item : plan.items()) {
    items.push_back(absl::StrCat(v1::CollectionItem::Kind_Name(item.kind()),
                                 " ", item.owner(), " ", item.name()));
    EXPECT_NE(item.id(), "");
    EXPECT_NE(item.why(), "");
  }
  EXPECT_THAT(items,
              testing::UnorderedElementsAre(
                  "KIND_JOB ada mine", "KIND_JOB bob theirs", "KIND_BLOB  "));
  EXPECT_EQ(plan.used_bytes(), 100);
  EXPECT_EQ(plan.budget_bytes(), 90);
  EXPECT_GT(plan.freed_bytes(), 0);
  const auto done = Ok(daemon.admin().Call(&DaemonApi::Collect));
  EXPECT_EQ(done.removed(), 3);
  EXPECT_GT(done.freed_bytes(), 0);
  EXPECT_FALSE(daemon.blobs->Has(sha256));
}

TEST_F(CollectCallsTest, OfPrivateJobsOnlyTheirPublicPart) {
  InProcessDaemon daemon(Rules(true));
  daemon.Ended({.owner = "bob", .name = "theirs"});
  daemon.PutBlob("nobody's");
  const auto hidden = Plan(daemon.As("ada"));
  ASSERT_THAT(hidden.items(), SizeIs(2));
  for (const v1::CollectionItem& item : hidden.items()) {
    EXPECT_EQ(item.name(), "");
    // A SHA-256 reveals what others have.
    EXPECT_EQ(item.id().empty(), item.kind() == v1::CollectionItem::KIND_BLOB);
  }
  const auto whole = Plan(daemon.As("root", Role::kAdmin));
  for (const v1::CollectionItem& item : whole.items()) {
    EXPECT_NE(item.id(), "");
  }
}

class DeleteTest : public testing::Test {
 protected:
  // A row of a job of ada's with that number in its id.
  std::string Add(int number, State state = State::kFailed,
                  const std::string& owner = "ada", bool pinned = false) {
    jobs::Job job = InProcessDaemon::MakeJob(number, state, owner);
    job.pinned = pinned;
    daemon_.Put(job);
    EXPECT_THAT(daemon_.kept->SetBytes({{job.id, 3, 0}}), IsOk());
    return job.id;
  }

  InProcessDaemon daemon_;
};

TEST_F(DeleteTest, ADryRunRemovesNothingAndSaysWhatADeletionWould) {
  const Api ada = daemon_.As("ada");
  const std::string failed = Add(1), running = Add(2, State::kRunning),
                    bobs = Add(3, State::kFailed, "bob"),
                    pinned = Add(4, State::kSucceeded, "ada", true),
                    none = InProcessDaemon::MakeJob(6, State::kFailed).id;
  for (const bool dry_run : {true, false}) {
    const auto remove = [&](const std::string& id) {
      auto request = ById<v1::DeleteRequest>(id);
      request.set_dry_run(dry_run);
      return ada.Call(&Jobs::Delete, request);
    };
    EXPECT_THAT(remove(running),
                Fails(StatusCode::kFailedPrecondition, "RUNNING"));
    EXPECT_THAT(remove(bobs),
                Fails(StatusCode::kPermissionDenied, "needs the job's owner"));
    EXPECT_THAT(remove(pinned),
                Fails(StatusCode::kFailedPrecondition, "pinned"));
    EXPECT_THAT(remove(none), Fails(StatusCode::kNotFound, "no job"));
    const auto removed = Ok(remove(failed));
    if (!dry_run) continue;
    EXPECT_EQ(removed.freed_bytes(), 3);
    EXPECT_EQ(daemon_.Stored(failed).state, State::kFailed);
    for (const access::AuditEntry& entry : daemon_.TakeAudit()) {
      EXPECT_EQ(entry.request.detail, "dry run");
    }
  }
}

}  // namespace
}  // namespace mpsd::rpc
