// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/plan_stream.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/limits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/rpc/fake_ledger.h"
#include "tests/server/rpc/fake_manager.h"
#include "tests/server/rpc/fake_planner.h"

namespace mpsd::rpc {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kProbe[] = "01M83D7QP0P8ZPHF2TPZMEST88";

access::Rights RightsOf(const std::string& user, bool private_jobs = false,
                        access::Role role = access::Role::kUser) {
  access::Caller caller;
  caller.user = user;
  caller.role = role;
  return access::Rights(caller, private_jobs);
}

class PlanStreamTest : public testing::Test {
 protected:
  PlanStreamTest() {
    request_.mutable_submission()->set_spec_json("{}");
    std::filesystem::create_directories(folder_);
  }
  ~PlanStreamTest() override { std::filesystem::remove_all(folder_); }

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
    jobs::Job job = FakeManager::MakeJob(kProbe, jobs::State::kSucceeded);
    job.kind = kind;
    job.owner = owner;
    job.output_path = folder_;
    std::ofstream(folder_ / "result.json") << result;
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

  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) /
      absl::StrCat("plan-stream-", getpid());
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

TEST_F(PlanStreamTest, TheEndOfTheStreamGivesThePlanUp) {
  auto source = Make();
  EXPECT_EQ(*source->Next(message_), Pull::kWait);
  EXPECT_EQ(planner_.watches, 1);
  source.reset();
  EXPECT_EQ(planner_.watches, 0);
}

TEST_F(PlanStreamTest, EndsAsThePlanEnds) {
  planner_.news.push_back(absl::DeadlineExceededError("too long"));
  EXPECT_EQ(Error(), absl::DeadlineExceededError("too long"));
  planner_.refusal = absl::UnavailableError("2 plans at a time");
  EXPECT_EQ(Error(), planner_.refusal);
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
  request_.mutable_thresholds()->clear();
  (*request_.mutable_thresholds())["memory.share"] = std::nan("");
  EXPECT_TRUE(absl::IsInvalidArgument(Error()));
  request_.mutable_thresholds()->clear();
  (*request_.mutable_thresholds())["\x1b[2J"] = 1;
  EXPECT_TRUE(absl::IsInvalidArgument(Error()));
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

TEST_F(PlanStreamTest, WithoutAPlannerPlansAreOff) {
  EXPECT_TRUE(
      absl::IsUnimplemented(MakePlanSource(nullptr, manager_, &ledger_,
                                           RightsOf("ada"), request_, [] {})
                                ->Next(message_)
                                .status()));
}

}  // namespace
}  // namespace mpsd::rpc
