// SPDX-License-Identifier: Apache-2.0
#include "client/plan.h"

#include <algorithm>

#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

class PlanTest : public ClientTest {
 protected:
  PlanTest() {
    runbook().plan_events.emplace_back().set_stage("tokenizing");
    runbook().plan_events.emplace_back().mutable_plan()->set_verdict(
        v1::VERDICT_PASS);
  }
  v1::Plan& plan() { return *runbook().plan_events.back().mutable_plan(); }

  const std::string job_ = WriteJob();
};

TEST_F(PlanTest, UploadsAndPlansAndQueuesNothing) {
  plan().mutable_queue()->set_jobs_ahead(3);
  EXPECT_THAT(RunVerb({"plan", job_, "--priority", "2", "--threshold",
                       "memory.share=0.5"}),
              Ends(0,
                   AllOf(HasSubstr("Verdict: fits\n"),
                         HasSubstr("ahead         3 jobs\n")),
                   IsEmpty()))
      << "stages are for a terminal";
  const v1::PlanRequest& asked = Only(runbook().plan_requests);
  EXPECT_EQ(asked.submission().priority(), 2);
  ASSERT_EQ(asked.submission().inputs_size(), 1);
  EXPECT_EQ(asked.submission().inputs(0).path(), "t.jsonl");
  EXPECT_EQ(data().blobs.count(asked.submission().inputs(0).sha256()), 1u);
  EXPECT_EQ(asked.thresholds().at("memory.share"), 0.5);
  EXPECT_EQ(asked.probe_id(), "");
  EXPECT_THAT(data().submitted, IsEmpty());
  plan().mutable_steps()->set_total_steps(7);
  const std::string out = Out({"plan", job_, "--json"});
  const auto json = ParseJson(out);
  EXPECT_EQ(json["verdict"], "PASS");
  EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 1);
}

TEST_F(PlanTest, AJobThatDoesNotFitIsTenAndTheNearestPlansAreShown) {
  plan().set_verdict(v1::VERDICT_FAIL);
  v1::PlanAlternative& other = *plan().add_alternatives();
  other.add_changes("training.max_length 512");
  other.set_memory_bytes(int64_t{3} << 30);
  other.set_seconds_per_step(0.25);
  other.set_total_seconds(90);
  other.set_note("cuts 12 % of the rows");
  EXPECT_THAT(
      RunVerb({"plan", job_}),
      Ends(10, AllOf(HasSubstr("3.00 GiB  0.25 s  1m30s  training.max_length "
                               "512 (cuts 12 % of the rows)\n"),
                     HasSubstr("Verdict: does not fit\n"))));
  plan().clear_alternatives();
  EXPECT_THAT(RunVerb({"plan", job_}).out,
              HasSubstr("No similar plan fits.\n"));
  EXPECT_EQ(RunVerb({"plan", job_, "--json"}).code, 10);
}

TEST_F(PlanTest, WaitsForOtherPlans) {
  runbook().busy = 3;
  EXPECT_EQ(RunVerb({"plan", job_}).code, 0);
  EXPECT_EQ(runbook().plan_requests.size(), 4u);
  EXPECT_EQ(sleeps_, 3);
  runbook().busy = 1'000'000;
  runbook().plan_requests.clear();
  EXPECT_THAT(RunVerb({"plan", job_}),
              Fails(7, HasSubstr("2 plans at a time")));
  EXPECT_EQ(runbook().plan_requests.size(), 301u) << "ten minutes of them";
}

TEST_F(PlanTest, WhatIsWrongHasItsWordsAndCode) {
  Fail("Plan", StatusCode::INVALID_ARGUMENT, "train.jsonl:1: bad");
  runbook().plan_events.clear();
  EXPECT_THAT(RunVerb({"plan", job_}),
              Ends(2, "", HasSubstr("train.jsonl:1: bad")));
  data().fail.clear();
  EXPECT_THAT(RunVerb({"plan", job_}),
              Fails(testing::Ne(0), HasSubstr("without a plan")));
  EXPECT_EQ(RunVerb({"plan", (folder_ / "none.json").string()}).code, 2);
  EXPECT_EQ(RunVerb({"plan", job_, "--threshold", "x"}).code, 2);
}

TEST_F(PlanTest, CtrlCEndsThePlan) {
  runbook().plan_events.clear();
  runbook().on_plan = [this](grpc::ServerContext* context) {
    EXPECT_TRUE(interrupt_.Raise());
    while (!context->IsCancelled()) absl::SleepFor(absl::Milliseconds(1));
  };
  EXPECT_THAT(RunVerb({"plan", job_}),
              Fails(130, HasSubstr("abandons the plan")));
}

TEST_F(PlanTest, AProbeComesFirst) {
  AddEnded(kId, v1::JOB_STATE_SUCCEEDED);
  const std::string out = Out({"plan", job_, "--probe", "--json"});
  EXPECT_TRUE(Only(data().submitted).study().has_probe());
  EXPECT_EQ(Only(runbook().plan_requests).probe_id(), kId);
  EXPECT_FALSE(runbook().plan_requests[0].submission().has_study());
  EXPECT_EQ(ParseJson(out)["verdict"], "PASS")
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
  AddEnded(kId, v1::JOB_STATE_FAILED);
  EXPECT_EQ(RunVerb({"plan", job_, "--probe"}).code, 1);
  EXPECT_THAT(runbook().plan_requests, IsEmpty());
}

class PlanTextTest : public ClientTest {
 protected:
  std::string Printed() {
    PrintPlan(plan_, TestConsole());
    return out_.str();
  }

  v1::Plan plan_;
};

TEST_F(PlanTextTest, TheDataAndTheirLengths) {
  EXPECT_EQ(Printed(), "Verdict: unknown\n") << "nothing is known yet";
  plan_.set_verdict(v1::VERDICT_PASS);
  v1::PlanRows& rows = *plan_.mutable_data()->mutable_train();
  rows.set_rows(1200);
  rows.set_tokens(34000);
  rows.set_cut_rows(12);
  rows.set_cut_share(0.01);
  rows.set_dropped_rows(3);
  rows.set_dropped_share(0.0025);
  rows.set_shortest(3);
  rows.set_median(20);
  rows.set_p95(60);
  rows.set_longest(64);
  for (int i = 0; i < 40; ++i) {
    v1::PlanLengths& bin = *rows.add_lengths();
    bin.set_from(10 * i);
    bin.set_to(10 * i + 9);
    bin.set_rows(i == 0 ? 300 : 1);
  }
  const std::string text = Printed();
  EXPECT_THAT(text, HasSubstr("  train         1,200 rows, 34,000 tokens; 12 "
                              "rows cut (1.0 %); 3 dropped (0.2 %)\n"));
  EXPECT_THAT(text, HasSubstr("3 to 64 tokens, median 20, 95 % have at most "
                              "60\n"));
  // Four bins a bar.
  EXPECT_THAT(text, HasSubstr("      0–39      ██████████████████████████████ "
                              "303\n"));
  EXPECT_THAT(text, HasSubstr("    360–399     █ 4\n"));
  terminal_.utf8 = false;
  EXPECT_THAT(Printed(), HasSubstr("############################## 303\n"));
}

TEST_F(PlanTextTest, MemoryWithItsPartsAgainstWhatThereIs) {
  plan_.set_verdict(v1::VERDICT_PASS);
  v1::PlanMemory& memory = *plan_.mutable_memory();
  memory.set_source(v1::PLAN_SOURCE_PROBE);
  memory.set_peak_bytes(int64_t{3} << 30);
  memory.set_estimated_bytes(int64_t{2} << 30);
  memory.set_base_weights_bytes(1'000'000'000);
  memory.set_limit_bytes(int64_t{8} << 30);
  const std::string text = Printed();
  EXPECT_THAT(text, HasSubstr("  peak          3.00 GiB of 8.00 GiB, measured "
                              "by a probe\n"));
  EXPECT_THAT(text, HasSubstr("  estimate      2.00 GiB\n"));
  EXPECT_THAT(text, HasSubstr("  parts         frozen weights 953.7 MiB\n"));
  memory.clear_limit_bytes();
  EXPECT_THAT(Printed(), HasSubstr("3.00 GiB of an unknown limit"));
}

TEST_F(PlanTextTest, TimeSaysWhereItComesFrom) {
  v1::PlanTime& time = *plan_.mutable_time();
  EXPECT_THAT(Printed(), HasSubstr("  a step        unknown\n"));
  time.set_source(v1::PLAN_SOURCE_HISTORY);
  time.set_runs(3);
  time.set_seconds_per_step(0.5);
  time.set_tokens_per_second(1234.4);
  time.set_total_seconds(3600);
  time.set_evaluation_seconds(60);
  time.set_roofline_seconds_per_step(0.25);
  const std::string text = Printed();
  EXPECT_THAT(text,
              HasSubstr("  a step        0.5 s, 1,234 tokens a second, by "
                        "past runs of this shape (3 runs)\n"));
  EXPECT_THAT(text, HasSubstr("  roofline      0.25 s a step\n"));
  EXPECT_THAT(text, HasSubstr("  in total      1h00m, 1m00s of it "
                              "evaluations\n"));
}

TEST_F(PlanTextTest, TheQueueSaysWhenTheJobWouldEnd) {
  v1::PlanQueue& queue = *plan_.mutable_queue();
  queue.set_jobs_ahead(2);
  queue.set_wait_seconds(30);
  queue.set_finish_seconds(90);
  EXPECT_THAT(Printed(), HasSubstr("Queue\n"
                                   "  ahead         2 jobs\n"
                                   "  wait          30s\n"
                                   "  would end     2026-01-02 03:05:35, in "
                                   "1m30s\n"));
  queue.clear_wait_seconds();
  queue.clear_finish_seconds();
  queue.set_why("a new disk");
  queue.add_not_told("how long the queue is held");
  const std::string text = Printed();
  EXPECT_THAT(text, HasSubstr("  held          a new disk\n"));
  EXPECT_THAT(text, HasSubstr("  unknown       how long the queue is held\n"));
  EXPECT_THAT(text, Not(HasSubstr("would end")));
}

TEST_F(PlanTextTest, NothingSteersTheTerminal) {
  plan_.set_verdict(v1::VERDICT_FAIL);
  const std::string bad = "\x1b]0;PWNED\a\x1b[2J\nforged";
  plan_.mutable_model()->set_model_type(bad);
  plan_.mutable_model()->set_gradients(bad);
  plan_.mutable_time()->set_rates(bad);
  plan_.mutable_queue()->set_why(bad);
  plan_.mutable_queue()->add_not_told(bad);
  plan_.mutable_data()->add_samplings()->set_name(bad);
  plan_.add_alternatives()->add_changes(bad);
  plan_.add_findings()->set_found(bad);
  const std::string text = Printed();
  EXPECT_THAT(text, AllOf(Not(HasSubstr("\x1b")), Not(HasSubstr("\nforged"))));
}

}  // namespace
}  // namespace mpsd::client
