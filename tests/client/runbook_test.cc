// SPDX-License-Identifier: Apache-2.0
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

using testing::HasSubstr;
using testing::Not;

class RunbookTest : public ClientTest {
 protected:
  RunbookTest() {
    job_ = (folder_ / "job.json").string();
    std::ofstream(job_) << R"({"name": "moods", "model": "org/m",
               "dataset": {"train": "t.jsonl"}})";
    std::ofstream(folder_ / "t.jsonl") << "{\"text\": \"a\"}\n";
    AddJob(kId, v1::JOB_STATE_SUCCEEDED);
    AddState(kId, v1::JOB_STATE_SUCCEEDED);
    v1::Diagnosis diagnosis;
    diagnosis.mutable_time()->set_seconds(absl::ToUnixSeconds(kNow));
    diagnosis.set_verdict(v1::VERDICT_PASS);
    for (const char* name : {"machine.architecture", "torch.matmul"}) {
      v1::Finding& gate = *diagnosis.add_findings();
      gate.set_name(name);
      gate.set_verdict(v1::VERDICT_PASS);
      gate.set_found("right");
    }
    daemon_->runbook().diagnoses = {diagnosis};
    v1::PlanEvent& event = daemon_->runbook().plan_events.emplace_back();
    v1::Plan& plan = *event.mutable_plan();
    plan.set_verdict(v1::VERDICT_PASS);
    plan.mutable_memory()->set_peak_bytes(1 << 30);
    v1::StudyResult sweep, smoke, parity;
    for (v1::StudyResult* result : {&sweep, &smoke, &parity}) {
      result->set_verdict(v1::VERDICT_PASS);
    }
    for (const int batch : {1, 2}) {
      v1::BatchPoint& point = *sweep.mutable_batch_sweep()->add_points();
      point.set_batch(batch);
      point.set_fits(true);
    }
    for (const int epoch : {1, 2}) {
      smoke.mutable_smoke()->add_epochs()->set_epoch(epoch);
    }
    parity.mutable_parity()->set_reference("cpu");
    daemon_->runbook().study_results = {sweep, smoke, parity};
  }

  Result RunIt(std::vector<std::string> more = {}) {
    std::vector<std::string> args = {"runbook", job_, "--output",
                                     (folder_ / "out").string()};
    args.insert(args.end(), more.begin(), more.end());
    return RunVerb(args);
  }
  nlohmann::json Page() {
    return nlohmann::json::parse(std::ifstream(folder_ / "out/runbook.json"));
  }

  std::string job_;
};

TEST_F(RunbookTest, FiveStepsInARowAndAPage) {
  const Result done = RunIt();
  // The client's own gates may warn: there is no real machine behind this.
  EXPECT_THAT(done.code, testing::AnyOf(0, 11)) << done.out << done.err;
  for (const char* step : {"== 1/5 doctor", "== 2/5 plan", "== 3/5 sweep",
                           "== 4/5 smoke", "== 5/5 parity"}) {
    EXPECT_THAT(done.out, HasSubstr(step));
  }
  ASSERT_EQ(data().submitted.size(), 3u);
  EXPECT_TRUE(data().submitted[0].study().has_batch_sweep());
  EXPECT_TRUE(data().submitted[1].study().has_smoke());
  EXPECT_EQ(data().submitted[2].study().parity().reference_device(), "cpu");
  for (const char* name :
       {"runbook.html", "runbook.md", "runbook.json", "sweep.svg"}) {
    EXPECT_GT(std::filesystem::file_size(folder_ / "out" / name), 100u);
  }
  EXPECT_EQ(Page()["name"], "moods");
  EXPECT_EQ(Page()["proofs"].size(), 4u);
  EXPECT_EQ(Page()["not_taken"].size(), 0u);
}

TEST_F(RunbookTest, AMachineThatFailsRunsNothing) {
  daemon_->runbook().diagnoses[0].set_verdict(v1::VERDICT_FAIL);
  daemon_->runbook().diagnoses[0].mutable_findings(0)->set_verdict(
      v1::VERDICT_FAIL);
  const Result done = RunIt();
  EXPECT_EQ(done.code, 10) << done.err;
  EXPECT_TRUE(data().submitted.empty());
  EXPECT_EQ(Page()["not_taken"].size(), 4u);
  EXPECT_THAT(Page()["not_taken"][0].get<std::string>(),
              HasSubstr("doctor says no"));
  EXPECT_EQ(RunIt({"--keep-going"}).code, 10);
  EXPECT_EQ(data().submitted.size(), 3u);
}

TEST_F(RunbookTest, AStepThatIsLeftOutIsSaid) {
  const Result done = RunIt({"--skip", "parity", "--skip", "sweep"});
  EXPECT_EQ(done.code, 10) << "no promise without the sweep";
  EXPECT_EQ(data().submitted.size(), 1u);
  EXPECT_EQ(Page()["not_taken"][0], "sweep: left out by --skip");
}

TEST_F(RunbookTest, ForAScriptTheRunbookAloneIsOnTheOutput) {
  const Result done = RunIt({"--json"});
  EXPECT_EQ(nlohmann::json::parse(done.out)["name"], "moods");
  EXPECT_THAT(done.err, HasSubstr("== 5/5 parity"));
}

TEST_F(RunbookTest, WhatTheDaemonRefusesEndsIt) {
  data().fail["GetStudyResult"] =
      grpc::Status(grpc::StatusCode::DATA_LOSS, "result.json is broken");
  const Result done = RunIt();
  EXPECT_EQ(done.code, 6);
  EXPECT_EQ(data().submitted.size(), 1u);
  EXPECT_THAT(Page()["not_taken"][0].get<std::string>(),
              HasSubstr("sweep: could not be taken"));
}

TEST_F(RunbookTest, WhatMakesNoSenseIsRefusedBeforeAnythingRuns) {
  EXPECT_EQ(RunIt({"--threshold", "smoke.epochs"}).code, 2);
  EXPECT_EQ(RunIt({"--against", "tpu"}).code, 2);
  EXPECT_EQ(RunIt({"--skip", "lunch"}).code, 2);
  EXPECT_EQ(RunVerb({"runbook", job_ + ".none"}).code, 2);
  EXPECT_TRUE(daemon_->runbook().asked.empty());
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
}

TEST_F(RunbookTest, APageThatCannotBeWrittenIsSaid) {
  std::ofstream(folder_ / "out") << "a file";
  const Result done = RunIt({"--skip", "sweep", "--skip", "smoke", "--skip",
                             "parity", "--skip", "plan"});
  EXPECT_EQ(done.code, 2);
  EXPECT_THAT(done.err, HasSubstr("--output: "));
  EXPECT_TRUE(daemon_->runbook().asked.empty()) << "it was said too late";
}

TEST_F(RunbookTest, APageThatDoesNotGoOutLeavesWhatWasFound) {
  // Nothing replaces a folder.
  std::filesystem::create_directories(folder_ / "out/runbook.html/x");
  const Result done = RunIt();
  EXPECT_EQ(done.code, 6);
  EXPECT_THAT(done.err, HasSubstr("runbook.html"));
  EXPECT_THAT(done.out, HasSubstr("Fit to promise: "));
  EXPECT_THAT(done.out, Not(HasSubstr("Read ")));
}

}  // namespace
}  // namespace mpsd::client
