// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/limits.h"
#include "server/rpc/runbook_calls.h"
#include "tests/server/planner/fake_machine.h"
#include "tests/server/rpc/fake_audit.h"
#include "tests/server/rpc/fake_ledger.h"
#include "tests/server/rpc/fake_planner.h"
#include "tests/server/rpc/served.h"

namespace mpsd::rpc {
namespace {

using doctor::Facts;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FakeExaminer final : public doctor::Examiner {
 public:
  absl::StatusOr<Facts> Examine(
      bool deep, const std::function<absl::Status()>& wanted) override {
    deep_ = deep;
    if (absl::Status s = wanted(); !s.ok()) return s;
    return facts_;
  }
  Facts facts_ = doctor::HealthyMac();
  bool deep_ = false;
};

class DiagnoseCallTest : public testing::Test {
 protected:
  absl::Status Ask() {
    Call call = CallOf("ada");
    call.wanted = [] { return absl::OkStatus(); };
    response_.Clear();
    return Diagnose(&examiner_, call, request_, response_);
  }
  FakeExaminer examiner_;
  v1::DiagnoseRequest request_;
  v1::Diagnosis response_;
};

TEST_F(DiagnoseCallTest, HasTheVerdictTheFindingsAndTheFacts) {
  ASSERT_TRUE(Ask().ok());
  EXPECT_EQ(response_.verdict(), v1::VERDICT_PASS);
  EXPECT_GE(response_.findings_size(), 25);
  EXPECT_EQ(response_.findings(0).name(), "machine.architecture");
  EXPECT_EQ(response_.machine().chip(), "Apple M4 Pro");
  EXPECT_EQ(response_.machine().fast_cores(), 10);
  EXPECT_EQ(response_.host().low_power_mode(), false);
  EXPECT_EQ(response_.worker().end(), v1::WorkerGates::END_DONE);
  EXPECT_EQ(response_.worker().backends(0).name(), "mps");
  EXPECT_TRUE(response_.worker().matmul().right());
  EXPECT_EQ(response_.selftest().state(), v1::SelftestFacts::STATE_PASSED);
  EXPECT_EQ(response_.disk().write_bytes_per_second(), 3e9);
  EXPECT_EQ(response_.mounts(0).type(), "apfs");
  EXPECT_EQ(response_.processes(0).name(), "WindowServer");
  EXPECT_EQ(response_.limits().descriptors(), 8192);
  EXPECT_TRUE(response_.service().runs_mpsd());
  EXPECT_EQ(response_.environment(0).name(), "OMP_WAIT_POLICY");
  EXPECT_TRUE(response_.has_time());
}

// What the machine does not tell is absent in the message, too.
TEST_F(DiagnoseCallTest, WhatIsNotToldIsAbsent) {
  examiner_.facts_ = Facts{};
  ASSERT_TRUE(Ask().ok());
  EXPECT_FALSE(response_.machine().has_translated());
  EXPECT_FALSE(response_.host().has_on_battery());
  EXPECT_FALSE(response_.worker().has_matmul());
  EXPECT_FALSE(response_.worker().has_time());
  EXPECT_FALSE(response_.disk().has_free_bytes());
  EXPECT_FALSE(response_.disk().has_write_bytes_per_second());
  EXPECT_FALSE(response_.limits().has_descriptors());
  EXPECT_FALSE(response_.service().has_runs_mpsd());
  EXPECT_EQ(response_.selftest().state(), v1::SelftestFacts::STATE_UNSPECIFIED);
}

// Whatever bytes a program calls itself by: the message is UTF-8.
TEST_F(DiagnoseCallTest, NamesOfAnyBytesMakeAMessage) {
  const std::string evil = "\xff\x1b[2J" + std::string(10'000, 'x');
  examiner_.facts_.processes->push_back({1, evil, int64_t{40} << 30, true});
  examiner_.facts_.service.file = evil;
  examiner_.facts_.service.runs_mpsd = false;
  examiner_.facts_.mounts[1].folder = evil;
  examiner_.facts_.worker.environment["LD_" + evil] = evil;
  ASSERT_TRUE(Ask().ok());
  EXPECT_EQ(response_.verdict(), v1::VERDICT_WARN);
  v1::Diagnosis parsed;
  EXPECT_TRUE(parsed.ParseFromString(response_.SerializeAsString()));
}

TEST_F(DiagnoseCallTest, ThresholdsAreChecked) {
  (*request_.mutable_thresholds())["doctor.disk_free"] = 1e15;
  ASSERT_TRUE(Ask().ok());
  EXPECT_EQ(response_.verdict(), v1::VERDICT_WARN);
  (*request_.mutable_thresholds())["doctor.nothing"] = 1;
  EXPECT_TRUE(absl::IsInvalidArgument(Ask()));
  request_.clear_thresholds();
  for (int i = 0; i < 65; ++i) {
    (*request_.mutable_thresholds())[std::to_string(i)] = 1;
  }
  EXPECT_THAT(std::string(Ask().message()), HasSubstr("at most 64"));
}

TEST_F(DiagnoseCallTest, DeepIsHandedOn) {
  request_.set_deep(true);
  EXPECT_TRUE(Ask().ok());
  EXPECT_TRUE(examiner_.deep_);
  Call call = CallOf("ada");
  EXPECT_TRUE(
      absl::IsUnimplemented(Diagnose(nullptr, call, request_, response_)));
}

// Callers with roles, and an audit.
class AuditedRunbookTest : public Served {
 protected:
  AuditedRunbookTest() : Served(OptionsOf(this)) {}
  // The server's last calls use the members of this class.
  ~AuditedRunbookTest() override { server_.reset(); }

  static Options OptionsOf(AuditedRunbookTest* test) {
    Options options;
    options.identify = [test](const grpc::CallbackServerContext& context) {
      return test->callers_.Find(context);
    };
    options.audit = &test->audit_;
    return options;
  }

  FakeCallers callers_;
  FakeAudit audit_;
};

// A viewer may look at the machine. The self-test keeps jobs from starting: it
// is noted, and no viewer's.
TEST_F(AuditedRunbookTest, ADeepDiagnosisIsNotedAndNoViewers) {
  v1::DiagnoseRequest request;
  for (const auto role :
       {access::Role::kViewer, access::Role::kUser, access::Role::kAdmin}) {
    for (const bool deep : {false, true}) {
      SCOPED_TRACE(absl::StrCat(static_cast<int>(role), deep));
      request.set_deep(deep);
      grpc::ClientContext context;
      FakeCallers::Name(context, "ada", role);
      v1::Diagnosis diagnosis;
      const grpc::Status status =
          runbook_->Diagnose(&context, request, &diagnosis);
      const bool may = !deep || role != access::Role::kViewer;
      EXPECT_EQ(status.error_code() != grpc::StatusCode::PERMISSION_DENIED,
                may);
      const std::vector<FakeAudit::Entry> noted = audit_.Take();
      ASSERT_EQ(noted.size(), deep ? 1u : 0u);
      if (!deep) continue;
      EXPECT_EQ(noted[0].request.method, "RunbookService.Diagnose (deep)");
      EXPECT_EQ(noted[0].request.detail,
                "measures the disk, runs the self-test");
      EXPECT_EQ(noted[0].refused, !may);
      if (may) continue;
      EXPECT_EQ(status.error_message(),
                "RunbookService.Diagnose (deep) needs the role user, and you "
                "(ada) are a viewer: ask an admin");
    }
  }
}

class StudyCallsTest : public testing::Test {
 protected:
  void Put(const std::string& id, jobs::JobKind kind, jobs::State state) {
    jobs::Job job = FakeManager::MakeJob(id, state);
    job.kind = kind;
    job.output_path = scratch_.string();
    manager_.Put(job);
  }
  void Write(const std::string& text) {
    std::ofstream(scratch_ / "result.json") << text;
  }
  absl::StatusOr<v1::StudyResult> Get(const std::string& id) {
    v1::StudyResult result;
    absl::Status status =
        GetStudyResult(manager_, ById<v1::GetStudyResultRequest>(id), result);
    if (!status.ok()) return status;
    return result;
  }

  const std::filesystem::path scratch_ = testing_support::FreshFolder("rpc");
  FakeManager manager_;
};

TEST_F(StudyCallsTest, TheResultIsWhatTheWorkerWrote) {
  Put("a", jobs::JobKind::kSmoke, jobs::State::kSucceeded);
  Write(R"({"verdict": "VERDICT_FAIL", "smoke": {"device": "mps"},
            "findings": [{"name": "memory.growth", "value": 0.5}]})");
  const auto result = Get("a");
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->job_id(), "a");
  EXPECT_EQ(result->verdict(), v1::VERDICT_FAIL);
  EXPECT_EQ(result->smoke().device(), "mps");
  ASSERT_EQ(result->findings_size(), 1);
  EXPECT_EQ(result->findings(0).value(), 0.5);
}

TEST_F(StudyCallsTest, WhoHasNoResultSaysWhy) {
  Put("t", jobs::JobKind::kTraining, jobs::State::kSucceeded);
  Put("r", jobs::JobKind::kProfile, jobs::State::kRunning);
  Put("a", jobs::JobKind::kSmoke, jobs::State::kSucceeded);
  for (const auto& [id, code, words] :
       {std::tuple{"", absl::StatusCode::kInvalidArgument, "id"},
        std::tuple{"none", absl::StatusCode::kNotFound, "none"},
        std::tuple{"t", absl::StatusCode::kFailedPrecondition,
                   "is a training job"},
        std::tuple{"r", absl::StatusCode::kFailedPrecondition,
                   "a profile, is RUNNING"},
        std::tuple{"a", absl::StatusCode::kNotFound, ""}}) {
    EXPECT_EQ(Get(id).status().code(), code) << id;
    EXPECT_THAT(std::string(Get(id).status().message()), HasSubstr(words));
  }
}

TEST_F(StudyCallsTest, AFileThatIsNoResult) {
  Put("a", jobs::JobKind::kSmoke, jobs::State::kSucceeded);
  Write("{");
  EXPECT_EQ(Get("a").status().code(), absl::StatusCode::kDataLoss);
  Write(std::string(limits::kStudyResultBytes + 1, ' '));
  EXPECT_FALSE(Get("a").ok());
  // A link leads nowhere that the worker could not have written itself.
  const std::filesystem::path result = scratch_ / "result.json";
  std::filesystem::remove(result);
  std::filesystem::create_symlink("/dev/zero", result);
  EXPECT_FALSE(Get("a").ok());
  const std::string secret = scratch_.string() + ".secret";
  std::ofstream(secret) << "a secret of this machine";
  std::filesystem::remove(result);
  std::filesystem::create_symlink(secret, result);
  const absl::Status refused = Get("a").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()),
              testing::Not(HasSubstr("a secret")));
  std::filesystem::remove(secret);
}

constexpr char kProbe[] = "01M83D7QP0P8ZPHF2TPZMEST88";

class PlanStreamTest : public testing::Test {
 protected:
  PlanStreamTest() { request_.mutable_submission()->set_spec_json("{}"); }

  std::unique_ptr<Source<v1::PlanEvent>> Make(
      const access::Rights& rights = RightsOf("ada")) {
    return MakePlanSource(&planner_, manager_, &ledger_, rights, request_,
                          [this] { ++woken_; });
  }
  absl::Status Error(const access::Rights& rights = RightsOf("ada")) {
    return Make(rights)->Next(message_).status();
  }
  // A study of `owner` that found `result`.
  void PutProbe(const std::string& owner, const std::string& result,
                jobs::JobKind kind = jobs::JobKind::kProbe) {
    jobs::Job job =
        FakeManager::MakeJob(kProbe, jobs::State::kSucceeded, owner);
    job.kind = kind;
    job.output_path = scratch_;
    std::ofstream(scratch_ / "result.json") << result;
    manager_.Put(job);
    request_.set_probe_id(kProbe);
  }
  static jobs::PlanNews Stage(const std::string& stage) {
    return {stage, std::nullopt};
  }
  static jobs::PlanNews Plan(const std::string& json,
                             jobs::PlanQueue queue = {}) {
    return {"", jobs::FinishedPlan{json, std::move(queue)}};
  }

  const std::filesystem::path scratch_ = testing_support::FreshFolder("rpc");
  FakeManager manager_;
  FakeLedger ledger_;
  FakePlanner planner_;
  v1::PlanRequest request_;
  v1::PlanEvent message_;
  int woken_ = 0;
};

TEST_F(PlanStreamTest, TellsStagesAndAtLastThePlan) {
  v1::SubmitRequest& submission = *request_.mutable_submission();
  submission.set_priority(3);
  submission.add_inputs()->set_path("t.jsonl");
  submission.mutable_inputs(0)->set_sha256(std::string(64, 'a'));
  (*request_.mutable_thresholds())["memory.share"] = 0.5;
  const auto source = Make();
  EXPECT_TRUE(planner_.requests.empty()) << "before the gate let it begin";
  EXPECT_EQ(*source->Next(message_), Pull::kWait);
  ASSERT_EQ(planner_.requests.size(), 1u);
  const jobs::PlanRequest& asked = planner_.requests[0];
  EXPECT_EQ(asked.submission.owner, "ada");
  EXPECT_EQ(asked.submission.priority, 3);
  EXPECT_EQ(asked.submission.inputs[0].path, "t.jsonl");
  EXPECT_EQ(asked.thresholds.at("memory.share"), 0.5);
  EXPECT_EQ(asked.probe_json, "");
  EXPECT_FALSE(asked.may_read) << "nothing is private";
  EXPECT_FALSE(asked.submission.may_use_blob);
  planner_.wake();
  EXPECT_EQ(woken_, 1);

  planner_.news.push_back(Stage("tokenizing"));
  EXPECT_EQ(*source->Next(message_), Pull::kMessage);
  EXPECT_EQ(message_.stage(), "tokenizing");
  message_.Clear();
  jobs::PlanQueue queue;
  queue.jobs_ahead = 2;
  queue.wait = absl::Seconds(30);
  planner_.news.push_back(Plan(R"({"verdict": "VERDICT_FAIL", "newer": 1,
               "steps": {"total_steps": "12"}, "time": {"total_seconds": 5}})",
                               queue));
  EXPECT_EQ(*source->Next(message_), Pull::kMessage);
  EXPECT_EQ(message_.plan().verdict(), v1::VERDICT_FAIL);
  EXPECT_EQ(message_.plan().steps().total_steps(), 12);
  EXPECT_EQ(message_.plan().queue().jobs_ahead(), 2);
  EXPECT_EQ(message_.plan().queue().wait_seconds(), 30);
  EXPECT_EQ(message_.plan().queue().finish_seconds(), 35);
  EXPECT_EQ(*source->Next(message_), Pull::kEnd);
  EXPECT_EQ(planner_.requests.size(), 1u);
}

TEST_F(PlanStreamTest, AWaitThatNobodyKnowsIsAbsent) {
  jobs::PlanQueue queue;
  queue.not_told = {"how long job A takes"};
  queue.why = "a new disk";
  planner_.news.push_back(Plan(R"({"time": {"total_seconds": 5}})", queue));
  EXPECT_EQ(*Make()->Next(message_), Pull::kMessage);
  const v1::PlanQueue& told = message_.plan().queue();
  EXPECT_FALSE(told.has_wait_seconds());
  EXPECT_FALSE(told.has_finish_seconds());
  EXPECT_THAT(told.not_told(), ElementsAre("how long job A takes"));
  EXPECT_EQ(told.why(), "a new disk");
  // A time that nobody knows, too.
  queue = {};
  queue.wait = absl::Seconds(1);
  message_.Clear();
  planner_.news.push_back(Plan("{}", queue));
  EXPECT_EQ(*Make()->Next(message_), Pull::kMessage);
  EXPECT_EQ(message_.plan().queue().wait_seconds(), 1);
  EXPECT_FALSE(message_.plan().queue().has_finish_seconds());
}

TEST_F(PlanStreamTest, EndsAsThePlanEnds) {
  auto source = Make();
  EXPECT_EQ(*source->Next(message_), Pull::kWait);
  EXPECT_EQ(planner_.watches, 1);
  source.reset();
  EXPECT_EQ(planner_.watches, 0) << "the end of the stream gives the plan up";
  planner_.news.push_back(absl::DeadlineExceededError("too long"));
  EXPECT_EQ(Error(), absl::DeadlineExceededError("too long"));
  planner_.refusal = absl::UnavailableError("2 plans at a time");
  EXPECT_EQ(Error(), planner_.refusal);
  EXPECT_TRUE(
      absl::IsUnimplemented(MakePlanSource(nullptr, manager_, &ledger_,
                                           RightsOf("ada"), request_, [] {})
                                ->Next(message_)
                                .status()));
}

TEST_F(PlanStreamTest, APlanThatIsNoneIsAnErrorOfTheProcess) {
  for (const char* json :
       {R"({"steps": 7})", R"({"verdict": {}})", "no JSON"}) {
    planner_.news.push_back(Plan(json));
    const absl::Status status = Error();
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << json;
    EXPECT_THAT(std::string(status.message()), HasSubstr("made no plan"));
  }
}

TEST_F(PlanStreamTest, ChecksTheRequestFirst) {
  request_.mutable_submission()->set_spec_json("");
  EXPECT_THAT(std::string(Error().message()), HasSubstr("spec_json"));
  request_.mutable_submission()->set_spec_json("{}");
  request_.mutable_submission()->set_owner("bob");
  EXPECT_TRUE(absl::IsPermissionDenied(Error()));
  request_.mutable_submission()->clear_owner();
  for (int i = 0; i < limits::kThresholds; ++i) {
    (*request_.mutable_thresholds())[absl::StrCat("t", i)] = i;
  }
  EXPECT_TRUE(Error().ok());
  (*request_.mutable_thresholds())["one.more"] = 1;
  EXPECT_THAT(std::string(Error().message()),
              HasSubstr("thresholds: has 65 entries, at most 64"));
  for (const auto& [name, value] :
       {std::pair{"memory.share", std::nan("")}, std::pair{"\x1b[2J", 1.0}}) {
    request_.mutable_thresholds()->clear();
    (*request_.mutable_thresholds())[name] = value;
    EXPECT_TRUE(absl::IsInvalidArgument(Error()));
  }
  request_.mutable_thresholds()->clear();
  request_.set_probe_id(std::string(limits::kIdBytes + 1, 'x'));
  EXPECT_THAT(std::string(Error().message()), HasSubstr("probe_id"));
  EXPECT_EQ(planner_.requests.size(), 1u) << "one was right";
}

TEST_F(PlanStreamTest, AStudyIsPlannedAsItsTraining) {
  request_.mutable_submission()->mutable_study()->mutable_smoke();
  EXPECT_TRUE(Error().ok());
  EXPECT_EQ(planner_.requests[0].submission.kind, jobs::JobKind::kTraining);
  EXPECT_EQ(planner_.requests[0].submission.study_json, "");
}

TEST_F(PlanStreamTest, TakesAProbesResult) {
  PutProbe("bob", R"({"probe": {"device": "mps"}})");
  EXPECT_TRUE(Error().ok());
  EXPECT_EQ(planner_.requests[0].probe_id, kProbe);
  EXPECT_EQ(nlohmann::json::parse(planner_.requests[0].probe_json).at("device"),
            "mps");
}

TEST_F(PlanStreamTest, OnlyAProbeIsAProbe) {
  PutProbe("ada", R"({"smoke": {}})", jobs::JobKind::kSmoke);
  EXPECT_THAT(std::string(Error().message()),
              HasSubstr("is a study of another kind"));
  PutProbe("ada", R"({"probe": {}})", jobs::JobKind::kTraining);
  EXPECT_TRUE(absl::IsFailedPrecondition(Error()));
  request_.set_probe_id("01M83D7QP0P8ZPHF2TPZMEST99");
  EXPECT_TRUE(absl::IsNotFound(Error()));
  PutProbe("ada", "garbage");
  EXPECT_TRUE(absl::IsDataLoss(Error()));
  EXPECT_TRUE(planner_.requests.empty());
}

TEST_F(PlanStreamTest, WhereJobsArePrivateThoseOfOthersAreNotUsed) {
  PutProbe("bob", R"({"probe": {"device": "mps"}})");
  EXPECT_TRUE(absl::IsPermissionDenied(Error(RightsOf("ada", true))));
  EXPECT_TRUE(Error(RightsOf("bob", true)).ok());
  EXPECT_TRUE(Error(RightsOf("eve", true, access::Role::kAdmin)).ok());
  ASSERT_EQ(planner_.requests.size(), 2u);
  const jobs::PlanRequest& bobs = planner_.requests[0];
  EXPECT_TRUE(bobs.may_read("bob"));
  EXPECT_FALSE(bobs.may_read("ada"));
  EXPECT_TRUE(bobs.submission.may_read_job(kProbe));
  EXPECT_FALSE(bobs.submission.may_read_job("another"));
  EXPECT_FALSE(bobs.submission.may_use_blob(std::string(64, 'a')));
  EXPECT_FALSE(planner_.requests[1].may_read) << "an admin reads all";
}

}  // namespace
}  // namespace mpsd::rpc
