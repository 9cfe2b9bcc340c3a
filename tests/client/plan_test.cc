// SPDX-License-Identifier: Apache-2.0
#include "client/plan.h"

#include <algorithm>
#include <string>

#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class PlanTest : public ClientTest {
 protected:
  PlanTest() {
    Write("train.jsonl", "{\"text\": \"a\"}\n");
    job_ = Write("job.json", R"({"model": "org/m",
                                 "dataset": {"train": "train.jsonl"}})");
    runbook().plan_events.emplace_back().set_stage("tokenizing");
    runbook().plan_events.emplace_back().mutable_plan()->set_verdict(
        v1::VERDICT_PASS);
  }
  FakeRunbook& runbook() { return daemon_->runbook(); }
  v1::Plan& plan() { return *runbook().plan_events.back().mutable_plan(); }

  std::string job_;
};

TEST_F(PlanTest, UploadsAndPlansAndQueuesNothing) {
  plan().mutable_queue()->set_jobs_ahead(3);
  const Result result = RunVerb(
      {"plan", job_, "--priority", "2", "--threshold", "memory.share=0.5"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("Verdict: fits\n"));
  EXPECT_THAT(result.out, HasSubstr("ahead         3 jobs\n"));
  EXPECT_THAT(result.err, IsEmpty()) << "stages are for a terminal";
  ASSERT_EQ(runbook().plan_requests.size(), 1u);
  const v1::PlanRequest& asked = runbook().plan_requests[0];
  EXPECT_EQ(asked.submission().priority(), 2);
  ASSERT_EQ(asked.submission().inputs_size(), 1);
  EXPECT_EQ(asked.submission().inputs(0).path(), "train.jsonl");
  EXPECT_EQ(data().blobs.count(asked.submission().inputs(0).sha256()), 1u);
  EXPECT_EQ(asked.thresholds().at("memory.share"), 0.5);
  EXPECT_EQ(asked.probe_id(), "");
  EXPECT_THAT(data().submitted, IsEmpty());
}

TEST_F(PlanTest, AJobThatDoesNotFitIsTenAndTheNearestPlansAreShown) {
  plan().set_verdict(v1::VERDICT_FAIL);
  v1::PlanAlternative& other = *plan().add_alternatives();
  other.add_changes("training.max_length 512");
  other.set_memory_bytes(int64_t{3} << 30);
  other.set_seconds_per_step(0.25);
  other.set_total_seconds(90);
  other.set_note("cuts 12 % of the rows");
  Result result = RunVerb({"plan", job_});
  EXPECT_EQ(result.code, 10) << result.err;
  EXPECT_THAT(result.out,
              HasSubstr("3.00 GiB  0.25 s  1m30s  training.max_length 512 "
                        "(cuts 12 % of the rows)\n"));
  EXPECT_THAT(result.out, HasSubstr("Verdict: does not fit\n"));
  plan().clear_alternatives();
  result = RunVerb({"plan", job_});
  EXPECT_THAT(result.out, HasSubstr("No plan near to it fits.\n"));
  EXPECT_EQ(RunVerb({"plan", job_, "--json"}).code, 10);
}

TEST_F(PlanTest, JsonIsOneObject) {
  plan().mutable_steps()->set_total_steps(7);
  const Result result = RunVerb({"plan", job_, "--json"});
  EXPECT_EQ(result.code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["verdict"], "PASS");
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 1);
}

TEST_F(PlanTest, WaitsForOtherPlans) {
  runbook().busy = 3;
  EXPECT_EQ(RunVerb({"plan", job_}).code, 0);
  EXPECT_EQ(runbook().plan_requests.size(), 4u);
  EXPECT_EQ(sleeps_, 3);
  runbook().busy = 1'000'000;
  runbook().plan_requests.clear();
  const Result never = RunVerb({"plan", job_});
  EXPECT_EQ(never.code, 7) << never.err;
  EXPECT_THAT(never.err, HasSubstr("2 plans at a time"));
  EXPECT_EQ(runbook().plan_requests.size(), 301u) << "ten minutes of them";
}

TEST_F(PlanTest, WhatIsWrongHasItsWordsAndCode) {
  data().fail["Plan"] =
      grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "train.jsonl:1: bad");
  runbook().plan_events.clear();
  Result result = RunVerb({"plan", job_});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("train.jsonl:1: bad"));
  EXPECT_THAT(result.out, IsEmpty());
  data().fail.clear();
  result = RunVerb({"plan", job_});
  EXPECT_NE(result.code, 0);
  EXPECT_THAT(result.err, HasSubstr("without telling it"));
  EXPECT_EQ(RunVerb({"plan", (folder_ / "none.json").string()}).code, 2);
  EXPECT_EQ(RunVerb({"plan", job_, "--threshold", "x"}).code, 2);
}

TEST_F(PlanTest, CtrlCEndsThePlan) {
  runbook().plan_events.clear();
  runbook().on_plan = [this](grpc::ServerContext* context) {
    EXPECT_TRUE(interrupt_.Raise());
    while (!context->IsCancelled()) absl::SleepFor(absl::Milliseconds(1));
  };
  const Result result = RunVerb({"plan", job_});
  EXPECT_EQ(result.code, 130) << result.err;
  EXPECT_THAT(result.err, HasSubstr("gives the plan up"));
}

TEST_F(PlanTest, AProbeComesFirst) {
  AddJob(kId, v1::JOB_STATE_SUCCEEDED);
  AddState(kId, v1::JOB_STATE_SUCCEEDED);
  const Result result = RunVerb({"plan", job_, "--probe", "--json"});
  EXPECT_EQ(result.code, 0) << result.err;
  ASSERT_EQ(data().submitted.size(), 1u);
  EXPECT_TRUE(data().submitted[0].study().has_probe());
  ASSERT_EQ(runbook().plan_requests.size(), 1u);
  EXPECT_EQ(runbook().plan_requests[0].probe_id(), kId);
  EXPECT_FALSE(runbook().plan_requests[0].submission().has_study());
  EXPECT_EQ(nlohmann::json::parse(result.out)["verdict"], "PASS")
      << "the probe's course goes to stderr";
}

TEST_F(PlanTest, AnEarlierProbeCanBeNamed) {
  AddJob(kId, v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(RunVerb({"plan", job_, "--probe-of", kId}).code, 0);
  EXPECT_EQ(runbook().plan_requests[0].probe_id(), kId);
  EXPECT_EQ(RunVerb({"plan", job_, "--probe-of", "01NONE"}).code, 4);
  EXPECT_EQ(RunVerb({"plan", job_, "--probe", "--probe-of", kId}).code, 2);
}

TEST_F(PlanTest, AProbeThatFailsEndsTheVerb) {
  AddJob(kId, v1::JOB_STATE_FAILED);
  AddState(kId, v1::JOB_STATE_FAILED);
  EXPECT_EQ(RunVerb({"plan", job_, "--probe"}).code, 1);
  EXPECT_THAT(runbook().plan_requests, IsEmpty());
}

}  // namespace
}  // namespace mpsd::client
