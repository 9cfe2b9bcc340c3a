// SPDX-License-Identifier: Apache-2.0
// The calls of RunbookService: the doctor, plans, and results of studies.
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/limits.h"
#include "tests/server/planner/fake_machine.h"
#include "tests/server/rpc/api.h"

namespace mpsd::rpc {
namespace {

class DiagnoseCallTest : public testing::Test {
 protected:
  DiagnoseCallTest() { facts_ = doctor::HealthyMac(); }
  absl::StatusOr<v1::Diagnosis> Ask() {
    return daemon_.admin().Call(&Runbook::Diagnose, request_);
  }
  InProcessDaemon daemon_;
  doctor::Facts& facts_ = daemon_.examiner.facts;
  v1::DiagnoseRequest request_;
};

TEST_F(DiagnoseCallTest, HasTheVerdictTheFindingsAndTheEnvironment) {
  const v1::Diagnosis diagnosis = Ok(Ask());
  EXPECT_EQ(diagnosis.verdict(), v1::VERDICT_PASS);
  EXPECT_GE(diagnosis.findings_size(), 25);
  EXPECT_EQ(diagnosis.findings(0).name(), "machine.architecture");
  EXPECT_EQ(diagnosis.environment(0).name(), "OMP_WAIT_POLICY");
  EXPECT_TRUE(diagnosis.has_time());
}

// A program's name may be any bytes: the message is UTF-8, and arrives.
TEST_F(DiagnoseCallTest, NamesOfAnyBytesMakeAMessage) {
  const std::string evil = "\xff\x1b[2J" + std::string(10'000, 'x');
  facts_.processes->push_back({1, evil, int64_t{40} << 30, true});
  facts_.service.file = evil;
  facts_.service.runs_mpsd = false;
  facts_.mounts[1].folder = evil;
  facts_.worker.environment["LD_" + evil] = evil;
  EXPECT_EQ(Ok(Ask()).verdict(), v1::VERDICT_WARN);
}

TEST_F(DiagnoseCallTest, ThresholdsAreChecked) {
  (*request_.mutable_thresholds())["doctor.disk_free"] = 1e15;
  EXPECT_EQ(Ok(Ask()).verdict(), v1::VERDICT_WARN);
  (*request_.mutable_thresholds())["doctor.nothing"] = 1;
  EXPECT_THAT(Ask(), Fails(StatusCode::kInvalidArgument));
  request_.clear_thresholds();
  for (int i = 0; i < 65; ++i) {
    (*request_.mutable_thresholds())[std::to_string(i)] = 1;
  }
  EXPECT_THAT(Ask(), Fails(StatusCode::kInvalidArgument, "at most 64"));
}

// A viewer may look at the machine. The self-test keeps jobs from starting: it
// is noted, and no viewer's.
TEST_F(DiagnoseCallTest, ADeepOneIsNotedAndNoViewers) {
  for (const Role role : {Role::kViewer, Role::kUser, Role::kAdmin}) {
    const Api ada = daemon_.As("ada", role);
    for (const bool deep : {false, true}) {
      SCOPED_TRACE(absl::StrCat(static_cast<int>(role), deep));
      request_.set_deep(deep);
      const absl::Status status =
          ada.Call(&Runbook::Diagnose, request_).status();
      const bool may = !deep || role != Role::kViewer;
      EXPECT_EQ(status.ok(), may) << status;
      EXPECT_TRUE(!may || daemon_.examiner.was_deep == deep);
      const std::vector<access::AuditEntry> noted = daemon_.TakeAudit();
      ASSERT_EQ(noted.size(), deep ? 1u : 0u);
      if (!deep) continue;
      EXPECT_EQ(noted[0].request.method, "RunbookService.Diagnose (deep)");
      EXPECT_EQ(noted[0].request.detail,
                "measures the disk, runs the self-test");
      EXPECT_EQ(noted[0].result, status.code());
      if (may) continue;
      EXPECT_EQ(status, absl::PermissionDeniedError(
                            "this needs the role user, and you (ada) are a "
                            "viewer, who may only read: ask an admin for the "
                            "role user"));
    }
  }
}

// Studies that have ended, and their results.
class StudyTest : public testing::Test {
 protected:
  explicit StudyTest(bool private_jobs = false)
      : daemon_({.private_jobs = private_jobs}) {}
  // A study of bob's that has written this result.
  std::string Put(jobs::JobKind kind, const std::string& result,
                  State state = State::kSucceeded) {
    jobs::Job job = InProcessDaemon::MakeJob(++studies_, state, "bob");
    job.kind = kind;
    job.output_path = daemon_.RunFolder(job.id);
    daemon_.Put(job);
    InProcessDaemon::Write(ResultOf(job.id), result);
    return job.id;
  }
  std::filesystem::path ResultOf(const std::string& id) const {
    return daemon_.RunFolder(id) / "result.json";
  }
  absl::StatusOr<v1::StudyResult> Get(const std::string& id) {
    return daemon_.admin().Call(&Runbook::GetStudyResult,
                                ById<v1::GetStudyResultRequest>(id));
  }

  int studies_ = 0;
  InProcessDaemon daemon_;
};

TEST_F(StudyTest, WhoHasNoResultSaysWhy) {
  const std::string none = Put(jobs::JobKind::kSmoke, "");
  std::filesystem::remove(ResultOf(none));
  for (const auto& [id, code, words] :
       {std::tuple<std::string, StatusCode, const char*>{
            "", StatusCode::kInvalidArgument, "id"},
        {"none", StatusCode::kNotFound, "none"},
        {Put(jobs::JobKind::kTraining, "{}"), StatusCode::kFailedPrecondition,
         "is a training job"},
        {Put(jobs::JobKind::kProfile, "{}", State::kRunning),
         StatusCode::kFailedPrecondition, "a profile, is RUNNING"},
        {none, StatusCode::kNotFound, ""},
        {Put(jobs::JobKind::kSmoke, "{"), StatusCode::kDataLoss, ""}}) {
    EXPECT_THAT(Get(id), Fails(code, words)) << id;
  }
  EXPECT_FALSE(Get(Put(jobs::JobKind::kSmoke,
                       std::string(limits::kStudyResultBytes + 1, ' ')))
                   .ok());
}

// A link leads nowhere that the worker could not have written itself.
TEST_F(StudyTest, AResultThatIsALinkIsNotRead) {
  const std::string id = Put(jobs::JobKind::kSmoke, "");
  std::filesystem::remove(ResultOf(id));
  std::filesystem::create_symlink("/dev/zero", ResultOf(id));
  EXPECT_FALSE(Get(id).ok());
  const std::filesystem::path secret = daemon_.folder / "secret";
  InProcessDaemon::Write(secret, "a secret of this machine");
  std::filesystem::remove(ResultOf(id));
  std::filesystem::create_symlink(secret, ResultOf(id));
  EXPECT_THAT(Get(id), Fails(StatusCode::kFailedPrecondition,
                             Not(HasSubstr("a secret"))));
}

class PlanTest : public StudyTest {
 protected:
  explicit PlanTest(bool private_jobs = false) : StudyTest(private_jobs) {
    request_.mutable_submission()->set_spec_json("{}");
  }
  // The stream of a plan that the planner makes at once.
  testing_support::Streamed<v1::PlanEvent> Plan(const Api& by) {
    if (planner_.news.empty()) SetPlan("{}");
    auto streamed = by.Read(&Runbook::Plan, request_);
    planner_.news.clear();
    return streamed;
  }
  absl::Status Error() { return Plan(ada_).end; }
  void SetPlan(const std::string& json, planner::PlanQueue queue = {}) {
    planner_.news.push_back(
        planner::PlanNews{"", planner::FinishedPlan{json, std::move(queue)}});
  }
  void SetProbe(const std::string& result,
                jobs::JobKind kind = jobs::JobKind::kProbe) {
    request_.set_probe_id(Put(kind, result));
  }

  fakes::FakePlanner& planner_ = daemon_.planner;
  const Api ada_ = daemon_.As("ada");
  v1::PlanRequest request_;
};

TEST_F(PlanTest, ReportsStagesAndAtLastThePlan) {
  request_ = Parsed<v1::PlanRequest>(R"pb(
    submission {
      spec_json: "{}"
      priority: 3
      inputs { path: "t.jsonl" }
      study { smoke {} }
    }
    thresholds { key: "memory.share" value: 0.5 })pb");
  request_.mutable_submission()->mutable_inputs(0)->set_sha256(
      std::string(64, 'a'));
  planner_.news.push_back(planner::PlanNews{"tokenizing", std::nullopt});
  planner::PlanQueue queue;
  queue.jobs_ahead = 2;
  queue.wait = absl::Seconds(30);
  queue.unknown = {"how long job A takes"};
  queue.why = "a new disk";
  SetPlan(R"({"verdict": "VERDICT_FAIL", "newer": 1,
               "steps": {"total_steps": "12"}, "time": {"total_seconds": 5}})",
          queue);
  const auto reply = Plan(ada_);
  EXPECT_THAT(reply, IsOk());
  ASSERT_THAT(reply.messages, SizeIs(2));
  EXPECT_EQ(reply.messages[0].stage(), "tokenizing");
  EXPECT_THAT(reply.messages[1].plan(), EqualsProto(R"pb(
                verdict: VERDICT_FAIL
                steps { total_steps: 12 }
                time { total_seconds: 5 }
                queue {
                  jobs_ahead: 2
                  wait_seconds: 30
                  finish_seconds: 35
                  unknown: "how long job A takes"
                  why: "a new disk"
                })pb"));
  ASSERT_THAT(planner_.requests, SizeIs(1));
  const planner::PlanRequest& asked = planner_.requests[0];
  EXPECT_EQ(asked.submission.owner, "ada");
  EXPECT_EQ(asked.submission.priority, 3);
  EXPECT_EQ(asked.submission.inputs[0].path, "t.jsonl");
  EXPECT_EQ(asked.thresholds.at("memory.share"), 0.5);
  EXPECT_EQ(asked.probe_json, "");
  EXPECT_FALSE(asked.may_read) << "nothing is private";
  EXPECT_FALSE(asked.submission.may_use_blob);
  // A study is planned as its training.
  EXPECT_EQ(asked.submission.kind, jobs::JobKind::kTraining);
  EXPECT_EQ(asked.submission.study_json, "");
}

TEST_F(PlanTest, AnUnknownWaitIsAbsent) {
  SetPlan(R"({"time": {"total_seconds": 5}})");
  const v1::PlanQueue unknown = Plan(ada_).messages.at(0).plan().queue();
  EXPECT_FALSE(unknown.has_wait_seconds());
  EXPECT_FALSE(unknown.has_finish_seconds());
  // An unknown time, too.
  planner::PlanQueue queue;
  queue.wait = absl::Seconds(1);
  SetPlan("{}", queue);
  const v1::PlanQueue wait = Plan(ada_).messages.at(0).plan().queue();
  EXPECT_EQ(wait.wait_seconds(), 1);
  EXPECT_FALSE(wait.has_finish_seconds());
}

TEST_F(PlanTest, EndsAsThePlanEnds) {
  planner_.news.push_back(absl::DeadlineExceededError("too long"));
  EXPECT_EQ(Error(), absl::DeadlineExceededError("too long"));
  for (const char* json :
       {R"({"steps": 7})", R"({"verdict": {}})", "no JSON"}) {
    SetPlan(json);
    EXPECT_THAT(Error(), Fails(StatusCode::kInternal, "made no plan"));
  }
  planner_.refusal = absl::UnavailableError("2 plans at a time");
  EXPECT_EQ(Error(), planner_.refusal);
  planner_.refusal = absl::OkStatus();
  // A client that goes away gives the plan up.
  grpc::ClientContext context;
  ada_.Prepare(context);
  const auto stream = ada_.Stub<v1::RunbookService>()->Plan(&context, request_);
  ASSERT_TRUE(daemon_.calls.AwaitOpen("RunbookService.Plan", 1));
  context.TryCancel();
  stream->Finish();
  daemon_.StopServing();
  EXPECT_EQ(planner_.watches, 0);
}

TEST_F(PlanTest, ChecksTheRequestFirst) {
  v1::SubmitRequest& submission = *request_.mutable_submission();
  submission.set_spec_json("");
  EXPECT_THAT(Error(), Fails(StatusCode::kInvalidArgument, "spec_json"));
  submission.set_spec_json("{}");
  submission.set_owner("bob");
  EXPECT_THAT(Error(), Fails(StatusCode::kPermissionDenied));
  submission.clear_owner();
  for (int i = 0; i < limits::kThresholds; ++i) {
    (*request_.mutable_thresholds())[absl::StrCat("t", i)] = i;
  }
  EXPECT_THAT(Error(), IsOk());
  (*request_.mutable_thresholds())["one.more"] = 1;
  EXPECT_THAT(Error(), Fails(StatusCode::kInvalidArgument,
                             "thresholds: has 65 entries, at most 64"));
  for (const auto& [name, value] :
       {std::pair{"memory.share", std::nan("")}, std::pair{"\x1b[2J", 1.0}}) {
    request_.mutable_thresholds()->clear();
    (*request_.mutable_thresholds())[name] = value;
    EXPECT_THAT(Error(), Fails(StatusCode::kInvalidArgument));
  }
  request_.mutable_thresholds()->clear();
  request_.set_probe_id(std::string(limits::kIdBytes + 1, 'x'));
  EXPECT_THAT(Error(), Fails(StatusCode::kInvalidArgument, "probe_id"));
  EXPECT_THAT(planner_.requests, SizeIs(1)) << "one was right";
}

TEST_F(PlanTest, TakesTheResultOfAProbeAndOfNothingElse) {
  SetProbe(R"({"probe": {"device": "mps"}})");
  EXPECT_THAT(Error(), IsOk());
  ASSERT_THAT(planner_.requests, SizeIs(1));
  EXPECT_EQ(planner_.requests[0].probe_id, request_.probe_id());
  EXPECT_EQ(nlohmann::json::parse(planner_.requests[0].probe_json).at("device"),
            "mps");
  SetProbe(R"({"smoke": {}})", jobs::JobKind::kSmoke);
  EXPECT_THAT(Error(), Fails(StatusCode::kInvalidArgument,
                             "is a study of another kind"));
  SetProbe(R"({"probe": {}})", jobs::JobKind::kTraining);
  EXPECT_THAT(Error(), Fails(StatusCode::kFailedPrecondition));
  SetProbe("garbage");
  EXPECT_THAT(Error(), Fails(StatusCode::kDataLoss));
  request_.set_probe_id("01M83D7QP0P8ZPHF2TPZMEST99");
  EXPECT_THAT(Error(), Fails(StatusCode::kNotFound));
  EXPECT_THAT(planner_.requests, SizeIs(1));
}

class PrivatePlanTest : public PlanTest {
 protected:
  PrivatePlanTest() : PlanTest(/*private_jobs=*/true) {}
};

TEST_F(PrivatePlanTest, JobsOfOthersAreNotUsed) {
  SetProbe(R"({"probe": {"device": "mps"}})");
  EXPECT_THAT(Error(), Fails(StatusCode::kPermissionDenied));
  EXPECT_THAT(Plan(daemon_.As("bob")), IsOk());
  EXPECT_THAT(Plan(daemon_.As("eve", Role::kAdmin)), IsOk());
  ASSERT_THAT(planner_.requests, SizeIs(2));
  const planner::PlanRequest& bobs = planner_.requests[0];
  EXPECT_TRUE(bobs.may_read("bob"));
  EXPECT_FALSE(bobs.may_read("ada"));
  EXPECT_TRUE(bobs.submission.may_read_job(request_.probe_id()));
  EXPECT_FALSE(bobs.submission.may_read_job("another"));
  EXPECT_FALSE(bobs.submission.may_use_blob(std::string(64, 'a')));
  EXPECT_FALSE(planner_.requests[1].may_read) << "an admin reads all";
}

}  // namespace
}  // namespace mpsd::rpc
