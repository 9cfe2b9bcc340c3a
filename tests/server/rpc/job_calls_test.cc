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

class DeleteJobsTest : public testing::Test {
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
  v1::DeleteJobsResponse Delete(const std::string& request, const Api& by) {
    return Ok(
        by.Call(&Jobs::DeleteJobs, Parsed<v1::DeleteJobsRequest>(request)));
  }
  v1::DeleteJobsResponse Delete(const std::string& request) {
    return Delete(request, ada_);
  }
  static std::string Ids(const std::vector<std::string>& ids) {
    std::string text;
    for (const std::string& id : ids)
      absl::StrAppend(&text, "ids: '", id, "' ");
    return text;
  }
  static std::string KeptWhy(const v1::DeleteJobsResponse& response,
                             const std::string& id) {
    for (const auto& kept : response.kept()) {
      if (kept.id() == id) return kept.why();
    }
    return "not kept";
  }

  InProcessDaemon daemon_;
  const Api ada_ = daemon_.As("ada"), root_ = daemon_.As("root", Role::kAdmin);
};

TEST_F(DeleteJobsTest, OneThatCannotGoKeepsNoOtherAndEachIsNoted) {
  const std::string failed = Add(1), running = Add(2, State::kRunning),
                    bobs = Add(3, State::kFailed, "bob"),
                    pinned = Add(4, State::kSucceeded, "ada", true),
                    done = Add(5, State::kSucceeded),
                    none = InProcessDaemon::MakeJob(6, State::kFailed).id;
  const v1::DeleteJobsResponse response =
      Delete(Ids({failed, running, bobs, pinned, done, none, failed}));
  EXPECT_THAT(response.deleted(), ElementsAre(failed, done));
  EXPECT_EQ(response.matched(), 2);
  EXPECT_THAT(KeptWhy(response, running), HasSubstr("RUNNING"));
  EXPECT_THAT(KeptWhy(response, bobs), HasSubstr("needs the job's owner"));
  EXPECT_THAT(KeptWhy(response, pinned), HasSubstr("pinned"));
  EXPECT_THAT(KeptWhy(response, none), HasSubstr("no job"));
  EXPECT_THAT(response.kept(), SizeIs(5));
  EXPECT_FALSE(response.more());
  // What became of each job is in the audit, as if it had been deleted alone.
  std::vector<std::string> noted;
  for (const access::AuditEntry& entry : daemon_.TakeAudit()) {
    if (entry.request.method != "JobService.Delete") continue;
    noted.push_back(entry.request.job_id);
    EXPECT_EQ(entry.request.detail, "by DeleteJobs");
    const bool went =
        entry.request.job_id == failed || entry.request.job_id == done;
    EXPECT_TRUE(went || entry.result != StatusCode::kOk);
  }
  // Of the job that does not exist, and of the one that is gone by its second
  // name, there is nothing to note.
  EXPECT_THAT(noted, testing::UnorderedElementsAre(failed, running, bobs,
                                                   pinned, done));
}

TEST_F(DeleteJobsTest, AFilterFindsTheCallersOwnOldestFirst) {
  std::vector<std::string> adas, bobs;
  for (int i = 1; i <= 3; ++i) {
    bobs.push_back(Add(2 * i, State::kFailed, "bob"));
    adas.push_back(Add(2 * i + 1));
  }
  const std::string running = Add(9, State::kRunning);
  const std::string failed = "filter { states: JOB_STATE_FAILED";
  // Another's are not found, and are no error.
  EXPECT_THAT(Delete(failed + " owner: 'bob' }").deleted(), IsEmpty());
  EXPECT_THAT(Delete(failed + " owner: 'bob' }", root_).deleted(),
              testing::ElementsAreArray(bobs));
  // Who names no state means those that have ended.
  const v1::DeleteJobsResponse own = Delete("filter { owner: 'ada' }");
  EXPECT_THAT(own.deleted(), testing::ElementsAreArray(adas));
  EXPECT_THAT(own.kept(), IsEmpty());
  EXPECT_EQ(daemon_.Stored(running).state, State::kRunning);
}

// A client that calls again while there are more comes to an end, with any
// cannot go.
TEST_F(DeleteJobsTest, CallsComeToAnEndThoughSomeStay) {
  for (int i = 1; i <= 24; ++i) {
    Add(i, State::kFailed, "ada", /*pinned=*/i <= 12);
  }
  int calls = 0;
  int64_t deleted = 0;
  v1::DeleteJobsResponse response;
  do {
    response = Delete("filter { states: JOB_STATE_FAILED page_size: 5 }");
    deleted += response.matched();
    ASSERT_LE(response.matched(), 5);
  } while (response.more() && ++calls < 10);
  EXPECT_EQ(deleted, 12);
  EXPECT_EQ(calls, 2);
  EXPECT_THAT(response.kept(), SizeIs(12));
}

// Of more than one page of the store, and more than it names.
TEST_F(DeleteJobsTest, ADryRunCountsAllAndRemovesNothing) {
  std::string first;
  for (int i = 1; i <= 1100; ++i) {
    const std::string id = Add(i, State::kFailed, "ada", /*pinned=*/i == 7);
    if (i == 1) first = id;
  }
  const v1::DeleteJobsResponse dry =
      Delete("filter { states: JOB_STATE_FAILED } dry_run: true");
  EXPECT_EQ(dry.matched(), 1099);
  EXPECT_EQ(dry.freed_bytes(), 1099 * 3);
  EXPECT_EQ(dry.deleted_size(), static_cast<int>(limits::kDeletedJobs));
  EXPECT_THAT(dry.kept(), SizeIs(1));
  EXPECT_FALSE(dry.more());
  EXPECT_EQ(Delete(Ids({first}) + "dry_run: true").matched(), 1);
  EXPECT_EQ(daemon_.Stored(first).state, State::kFailed);
  EXPECT_THAT(daemon_.TakeAudit(), SizeIs(2)) << "the calls alone";
}

TEST_F(DeleteJobsTest, WhoIsGoneStopsIt) {
  for (int i = 1; i <= 9; ++i) Add(i);
  int asked = 0;
  access::Caller caller{"ada", Role::kUser, access::Way::kToken, "", ""};
  rpc::Call call{
      access::Rights(caller, false),
      [&] { return ++asked > 3 ? absl::CancelledError("") : absl::OkStatus(); },
      ""};
  v1::DeleteJobsResponse response;
  EXPECT_THAT(DeleteJobs(Gate({{}, false, daemon_.audit.get()}, *daemon_.board),
                         *daemon_.scheduler, *daemon_.board,
                         Parsed<v1::DeleteJobsRequest>(
                             "filter { states: JOB_STATE_FAILED }"),
                         call, response),
              IsOk());
  EXPECT_EQ(response.matched(), 3);
}

TEST_F(DeleteJobsTest, WhatNamesNothingOrTooMuchIsRefused) {
  const std::string id = Add(1);
  std::string many;
  for (size_t i = 0; i <= limits::kDeletedJobs; ++i) many += "ids: 'x' ";
  for (const auto& [text, words] :
       {std::pair<std::string, const char*>{
            "", "ids: name jobs either here or by a filter"},
        {"filter {}", "filter: names nothing"},
        {"filter { page_size: 5 }", "filter: names nothing"},
        {"filter { states: JOB_STATE_FAILED } ids: 'a'", "either here"},
        {"filter { states: JOB_STATE_FAILED page_size: 501 }",
         "filter.page_size: must be 0 to 500, is 501"},
        {"filter { states: JOB_STATE_FAILED order: JOB_ORDER_NAME }",
         "filter: page_token, order"},
        {"filter { states: JOB_STATE_FAILED page_token: 'x' }",
         "filter: page_token"},
        {"ids: ''", "ids[0]: must not be empty"},
        {many, "ids: has 1001 entries"}}) {
    EXPECT_THAT(
        root_.Call(&Jobs::DeleteJobs, Parsed<v1::DeleteJobsRequest>(text)),
        Fails(StatusCode::kInvalidArgument, words));
  }
  EXPECT_EQ(daemon_.Stored(id).state, State::kFailed);
}

}  // namespace
}  // namespace mpsd::rpc
