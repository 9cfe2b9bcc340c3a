// SPDX-License-Identifier: Apache-2.0
#include "client/profile.h"

#include "core/base/file.h"
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

// What a profile on a GPU found.
v1::StudyResult ProfileSample() {
  v1::StudyResult result;
  result.set_job_id("01KAH0000000000000000000AA");
  result.set_verdict(v1::VERDICT_WARN);
  v1::Finding& finding = *result.add_findings();
  finding.set_name("profile.blocking");
  finding.set_verdict(v1::VERDICT_WARN);
  finding.set_found("the host waits");
  finding.set_advice("report it");
  v1::ProfileResult& profile = *result.mutable_profile();
  profile.set_device("mps");
  profile.set_gradients("explicit");
  profile.add_not_told("the device's own times");
  v1::ProfileSteps& steps = *profile.mutable_steps();
  steps.set_warm_up(10);
  steps.set_plain(20);
  steps.set_profiled(50);
  steps.set_first_seconds(2.5);
  steps.set_warm_up_seconds(0.2);
  steps.set_steady_seconds(0.1);
  steps.set_profiled_seconds(0.11);
  steps.set_overhead_ratio(0.1);
  steps.set_data_wait_share(0.25);
  const auto capture = [&](const char* name, int count, double seconds) {
    v1::ProfileCapture& part = *profile.add_captures();
    part.set_name(name);
    part.set_steps(count);
    part.set_seconds(seconds);
  };
  capture("data", 20, 0.03);
  capture("forward", 5, 0.02);
  capture("step", 20, 0.1);
  const auto block = [&](const char* name, const char* phase, double share) {
    v1::ProfileBlock& row = *profile.add_blocks();
    row.set_name(name);
    row.set_phase(phase);
    row.set_calls(4);
    row.set_share(share);
    row.set_seconds(0.1 * share);
    row.set_operator_seconds(0.09 * share);
  };
  block("attention", "backward", 0.75);
  block("mlp", "forward", 0.2495);
  block("upload", "forward", 0.0005);
  for (int i = 0; i < 20; ++i) {
    v1::ProfileOperator& op = *profile.add_operators();
    op.set_name("aten::op" + std::to_string(i));
    op.set_calls(10);
    op.set_self_seconds(0.001);
    op.set_share(0.05);
    if (i == 0) op.set_device_seconds(0.004);
  }
  v1::ProfileGaps& gaps = *profile.mutable_gaps();
  gaps.set_seconds(0.004);
  gaps.set_share(0.04);
  gaps.set_longest_seconds(0.001);
  gaps.set_longest_block("mlp");
  v1::ProfileWait& wait = *profile.add_waits();
  wait.set_name("aten::_local_scalar_dense");
  wait.set_calls(2);
  wait.set_seconds(0.01);
  wait.set_block("mlp");
  v1::ProfileWait& own = *profile.add_waits();
  own.set_name("read back");
  own.set_calls(1);
  own.set_seconds(0.02);
  own.set_own(true);
  (*profile.mutable_cpu_fallback_ops())["aten::unique\x1b[31m"] = 7;
  profile.mutable_memory()->set_peak_driver_bytes(12'000'000);
  profile.mutable_memory()->set_peak_footprint_bytes(34'000'000);
  v1::ProfileTrace& trace = *profile.mutable_trace();
  trace.set_file("trace.json.gz");
  trace.set_size_bytes(1'200'000);
  trace.set_steps(5);
  return result;
}

class ProfileTextTest : public ClientTest {
 protected:
  std::string Printed(const v1::StudyResult& result) {
    PrintProfile(result, TestConsole());
    return out_.str();
  }
};

TEST_F(ProfileTextTest, TellsStepsBlocksOperatorsAndWaits) {
  const std::string text = Printed(ProfileSample());
  for (const char* line :
       {"mps, gradients: explicit; 10 steps of warm-up, 20 plain, 50 under the "
        "profiler, which makes a step 10.0% longer\n",
        "the first       2500 ms", "steady          100 ms",
        "waits for data for 25.0%", "data alone      30 ms",
        "forward alone   20 ms", "attention  backward  4      75 ms",
        "aten::op0   10     1 ms      5.0%   4 ms",
        "Between operators: 4 ms a step (4.0%); the longest 1 ms, in 'mlp'\n",
        "The host waits in aten::_local_scalar_dense: 2 a step, 10 ms; in "
        "'mlp'\n",
        "The host waits in read back: 1 a step, 20 ms; the one that ends a "
        "step\n",
        "Memory at its peak: driver 12.0 MB, process 34.0 MB\n",
        "Unknown: the device's own times\n",
        "Trace: trace.json.gz, 1.2 MB, the last 5 steps"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  // What is next to nothing is left out, and no name moves the cursor.
  EXPECT_THAT(text, AllOf(HasSubstr("aten::op11"), Not(HasSubstr("aten::op12")),
                          Not(HasSubstr("upload")),
                          HasSubstr("On the CPU: aten::unique"),
                          Not(HasSubstr("\x1b"))));
}

TEST_F(ProfileTextTest, AnEmptyResultIsPrintedToo) {
  v1::StudyResult result;
  result.mutable_profile();
  EXPECT_THAT(Printed(result), Not(HasSubstr("nan")));
}

namespace fs = std::filesystem;

class ProfileVerbTest : public ClientTest {
 protected:
  ProfileVerbTest() {
    AddJob(kOtherId, v1::JOB_STATE_SUCCEEDED);
    AddEnded(kId, v1::JOB_STATE_SUCCEEDED);  // what Submit answers with
    v1::SubmitRequest& kept = data().requests[kOtherId];
    kept.set_kind(v1::JOB_KIND_TRAINING);
    kept.set_spec_json(Read(job_));
    v1::InputFile* input = kept.add_inputs();
    input->set_path("t.jsonl");
    input->set_sha256(std::string(64, 'a'));
    kept.set_priority(3);
    kept.set_held(true);
    kept.add_after("01KAH0000000000000000000CC");
    runbook().study_result = ProfileSample();
  }
  Result Profile(Args options) {
    options.insert(options.begin(), "profile");
    return RunVerb(options);
  }

  const std::string job_ = WriteJob();
};

TEST_F(ProfileVerbTest, QueuesAStudyOfAJobFileAndShowsWhatItFound) {
  EXPECT_THAT(Profile({job_, "--steps", "20", "--warm-up", "4", "--threshold",
                       "profile.data_share=0.3", "--label", "why=slow"}),
              Ends(11, AllOf(HasSubstr("attention  backward"),
                             HasSubstr("profile.blocking: report it\n"),
                             HasSubstr("Verdict: warn\n"))));
  const v1::SubmitRequest& request = Only(data().submitted);
  const v1::ProfileOptions& options = request.study().profile();
  EXPECT_EQ(options.steps(), 20);
  EXPECT_EQ(options.warm_up_steps(), 4);
  EXPECT_EQ(options.thresholds().at("profile.data_share"), 0.3);
  EXPECT_EQ(request.labels().at("why"), "slow");
  EXPECT_EQ(request.inputs_size(), 1);
}

TEST_F(ProfileVerbTest, AJobIsProfiledAgainWithItsInputs) {
  EXPECT_THAT(Profile({kOtherId}), Fails(11));
  const v1::SubmitRequest& request = Only(data().submitted);
  EXPECT_TRUE(request.study().has_profile());
  EXPECT_FALSE(request.study().profile().has_steps());
  EXPECT_EQ(request.kind(), v1::JOB_KIND_UNSPECIFIED);
  EXPECT_EQ(request.inputs(0).sha256(), std::string(64, 'a'));
  EXPECT_EQ(request.priority(), 0);
  EXPECT_FALSE(request.held());
  EXPECT_EQ(request.after_size(), 0);
  EXPECT_EQ(data().uploads, 0);
}

TEST_F(ProfileVerbTest, AStudyIsProfiledAsTheTrainingThatItLooksAt) {
  data().requests[kOtherId].mutable_study()->mutable_smoke();
  EXPECT_EQ(Profile({kOtherId, "--detach"}).code, 0);
  EXPECT_TRUE(data().submitted.at(0).study().has_profile());
}

TEST_F(ProfileVerbTest, TheTraceIsSavedAndTheVerdictKept) {
  const fs::path file = folder_ / "slow.json.gz";
  EXPECT_THAT(Profile({kOtherId, "--trace", file.string()}),
              Ends(4, HasSubstr("Verdict: warn\n")));
  EXPECT_FALSE(fs::exists(file));
  AddFile("trace.json.gz", "packed");
  EXPECT_THAT(Profile({kOtherId, "--trace", file.string()}),
              Fails(11, HasSubstr("chrome://tracing")));
  EXPECT_EQ(*base::ReadFile(file), "packed");
}

TEST_F(ProfileVerbTest, APlaceForTheTraceIsLookedAtFirst) {
  for (const char* name :
       {"trace.json", "job.json", "there.json.gz", "none/t.json.gz"}) {
    std::ofstream(folder_ / "there.json.gz") << "mine";
    EXPECT_THAT(Profile({job_, "--trace", (folder_ / name).string()}),
                Fails(2, HasSubstr("--trace: ")))
        << name;
  }
  EXPECT_EQ(*base::ReadFile(folder_ / "there.json.gz"), "mine");
  EXPECT_TRUE(data().submitted.empty());
}

TEST_F(ProfileVerbTest, WithJsonTheResultAloneGoesToStdout) {
  AddFile("trace.json.gz", "packed");
  const Result result = Profile(
      {kOtherId, "--json", "--trace", (folder_ / "t.json.gz").string()});
  EXPECT_EQ(result.code, 11);
  const auto json = ParseJson(result.out);
  EXPECT_EQ(json["profile"]["device"], "mps");
  EXPECT_EQ(json["profile"]["steps"]["plain"], 20);
  EXPECT_THAT(result.err, HasSubstr(" submitted: "));
}

TEST_F(ProfileVerbTest, WithDetachNothingIsFollowed) {
  EXPECT_THAT(Profile({kOtherId, "--detach"}),
              Prints(HasSubstr("mpsctl watch")));
  const Result json = Profile({kOtherId, "--detach", "--json"});
  EXPECT_EQ(ParseJson(json.out)["id"], kId);
}

TEST_F(ProfileVerbTest, AProfileThatWasCancelledHasNoVerdict) {
  data().jobs[0].set_state(v1::JOB_STATE_CANCELLED);
  data().events[kId].clear();
  AddState(kId, v1::JOB_STATE_CANCELLED);
  EXPECT_THAT(Profile({kOtherId}), Ends(5, Not(HasSubstr("Verdict"))));
}

TEST_F(ProfileVerbTest, WhatCannotBeIsRefused) {
  for (const char* steps : {"0", "1001", "-1", "many"}) {
    EXPECT_EQ(Profile({kOtherId, "--steps", steps}).code, 2) << steps;
  }
  EXPECT_EQ(Profile({kOtherId, "--warm-up", "0"}).code, 2);
  EXPECT_EQ(Profile({kOtherId, "--threshold", "none"}).code, 2);
  EXPECT_EQ(Profile({"01NONE"}).code, 4);
  EXPECT_EQ(Profile({"none.json"}).code, 2);
  EXPECT_TRUE(data().submitted.empty());
}

}  // namespace
}  // namespace mpsd::client
