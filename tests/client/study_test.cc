// SPDX-License-Identifier: Apache-2.0
#include "client/study.h"

#include <algorithm>

#include "core/base/file.h"
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

class StudyTest : public ClientTest {
 protected:
  StudyTest() {
    arguments_.job.path = WriteJob();
    study_.mutable_smoke();
    v1::StudyResult& result = runbook().study_result;
    result.set_verdict(v1::VERDICT_WARN);
    result.mutable_smoke()->set_device("mps");
    v1::Finding& finding = *result.add_findings();
    finding.set_name("memory.growth");
    finding.set_verdict(v1::VERDICT_WARN);
    finding.set_found("31 % over ten epochs\x1b[2J");
    finding.set_advice("look for tensors that are kept");
  }

  ExitCode RunIt(bool json = false) {
    const ExitCode code =
        RunStudy(TestConsole(json), arguments_, study_,
                 [](const v1::StudyResult& result, const Console& console) {
                   console.out << "on " << result.smoke().device() << '\n';
                 });
    daemon_->Sync();
    return code;
  }

  StudyArguments arguments_;
  v1::Study study_;
};

TEST_F(StudyTest, FollowsTheJobAndShowsWhatItFound) {
  AddEnded(kId, v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(RunIt(), ExitCode::kVerdictWarn) << err_.str();
  EXPECT_TRUE(Only(data().submitted).study().has_smoke());
  EXPECT_EQ(data().submitted[0].inputs_size(), 1);
  EXPECT_THAT(out_.str(),
              HasSubstr("on mps\n"
                        "VERDICT  WHAT           FOUND\n"
                        "warn     memory.growth  31 % over ten epochs"
                        "\\x1b[2J\n"
                        "memory.growth: look for tensors that are kept\n"
                        "Verdict: warn\n"));
  EXPECT_EQ(RunIt(/*json=*/true), ExitCode::kVerdictWarn);
  const auto json = ParseJson(out_.str());
  EXPECT_EQ(json["verdict"], "WARN");
  EXPECT_EQ(json["smoke"]["device"], "mps");
  EXPECT_THAT(err_.str(), HasSubstr("submitted"));
}

TEST_F(StudyTest, AJobThatFailsHasNoVerdict) {
  AddEnded(kId, v1::JOB_STATE_FAILED);
  EXPECT_EQ(RunIt(), ExitCode::kJobFailed);
  EXPECT_THAT(out_.str(), Not(HasSubstr("Verdict")));
}

TEST_F(StudyTest, DetachedThereIsNoResultToFetch) {
  AddJob(kId, v1::JOB_STATE_QUEUED);
  arguments_.detach = true;
  Fail("GetStudyResult", StatusCode::FAILED_PRECONDITION, "is QUEUED");
  EXPECT_EQ(RunIt(), ExitCode::kOk);
  EXPECT_EQ(err_.str(), "");
  EXPECT_THAT(out_.str(), HasSubstr("mpsctl watch"));
}

// "$FILE" of a script that has not set it is no option that was left out.
TEST_F(StudyTest, AnEmptyValueIsRefused) {
  const std::string& job = arguments_.job.path;
  for (const Args& args : {Args{"check", "smoke", job, "--thresholds", ""},
                           {"check", "smoke", ""},
                           {"check", "profile", job, "--trace", ""},
                           {"check", "batch", job, "--output", ""},
                           {"plan", ""}}) {
    EXPECT_THAT(RunVerb(args), Fails(2, HasSubstr("got an empty string")))
        << testing::PrintToString(args);
  }
  EXPECT_TRUE(data().submitted.empty());
}

TEST_F(StudyTest, WhatTheDaemonRefuses) {
  AddEnded(kId, v1::JOB_STATE_SUCCEEDED);
  Fail("GetStudyResult", StatusCode::DATA_LOSS, "result.json is broken");
  EXPECT_EQ(RunIt(), ExitCode::kOther);
  EXPECT_THAT(err_.str(), HasSubstr("result.json is broken"));
}

class ThresholdsTest : public ClientTest {
 protected:
  absl::Status Add() { return AddThresholds(arguments_, &out_); }
  void File(const std::string& text) {
    arguments_.file = (folder_ / "t.toml").string();
    std::ofstream(arguments_.file) << text;
  }

  ThresholdArguments arguments_;
  google::protobuf::Map<std::string, double> out_;
};

TEST_F(ThresholdsTest, AFileAndValuesThatGoBeforeIt) {
  File(
      "# ours\n[compare]\nspeedup = 0.3\ngpu_utilization = 0.2\n"
      "[smoke]\nepochs = 5\n");
  arguments_.values = {"smoke.epochs=7"};
  ASSERT_TRUE(Add().ok());
  EXPECT_EQ(out_.size(), 3u);
  EXPECT_EQ(out_.at("compare.speedup"), 0.3);
  EXPECT_EQ(out_.at("compare.gpu_utilization"), 0.2);
  EXPECT_EQ(out_.at("smoke.epochs"), 7);
}

TEST_F(ThresholdsTest, WhatIsNoNumberIsNamed) {
  arguments_.values = {"smoke.epochs"};
  EXPECT_EQ(Add().code(), absl::StatusCode::kInvalidArgument);
  arguments_.values = {"smoke.epochs=many"};
  EXPECT_THAT(std::string(Add().message()),
              HasSubstr("--threshold: expected NAME=NUMBER, got "
                        "smoke.epochs=many"));
  arguments_.values = {};
  File("[smoke]\nepochs = \"many\"\n");
  EXPECT_THAT(
      std::string(Add().message()),
      HasSubstr("t.toml:2: expected NAME=NUMBER, got epochs = \"many\""));
  arguments_.file = (folder_ / "none.toml").string();
  EXPECT_EQ(Add().code(), absl::StatusCode::kNotFound);
}

// A line that is overlooked would be a threshold that does not hold.
TEST_F(ThresholdsTest, EachLineIsReadOrRefused) {
  const std::pair<std::string, std::string> cases[] = {
      {"[smoke]\nepochs = [1, 2]\n", "t.toml:2: expected NAME=NUMBER"},
      {"[smoke\nepochs = 1\n", "t.toml:1: expected [TABLE], got [smoke"},
      {"[]\n", "t.toml:1: expected [TABLE]"},
      {"[smoke]\nepochs\n", "t.toml:2: expected NAME=NUMBER, got epochs"},
      {" = 1\n", "t.toml:1: expected NAME=NUMBER"},
      {"a.b = 1\n\n[a]\nb = 2 # again\n", "t.toml:4: a.b is given twice"},
      {"\x1b[2J\n", "t.toml:1: expected NAME=NUMBER, got \\x1b[2J"},
      {std::string(100'000, '['), "t.toml:1: expected [TABLE], got [[["},
  };
  for (const auto& [text, words] : cases) {
    out_.clear();
    File(text);
    const absl::Status refused = Add();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << words;
    EXPECT_THAT(std::string(refused.message()), HasSubstr(words));
    EXPECT_LT(refused.message().size(), 1000u);
  }
  out_.clear();
  File("\"smoke.epochs\" = 5\r\n[ a ]\r\n  b=1e-3\t# c\r\n#[x\n");
  ASSERT_TRUE(Add().ok());
  EXPECT_EQ(out_.at("smoke.epochs"), 5);
  EXPECT_EQ(out_.at("a.b"), 1e-3);
}

TEST_F(ThresholdsTest, TooMany) {
  std::string text;
  for (int i = 0; i < 65; ++i) text += "a" + std::to_string(i) + " = 1\n";
  File(text);
  EXPECT_THAT(std::string(Add().message()), HasSubstr("at most 64"));
}

class SmokeTest : public ClientTest {
 protected:
  SmokeTest() {
    AddEnded(kId, v1::JOB_STATE_SUCCEEDED);
    v1::StudyResult& result = runbook().study_result;
    result.set_verdict(v1::VERDICT_PASS);
    v1::SmokeResult& smoke = *result.mutable_smoke();
    smoke.set_device("cpu");
    smoke.set_rows(8);
    smoke.set_steps_per_epoch(4);
    smoke.set_memory_from("footprint");
    smoke.set_memory_growth(0.015);
    smoke.mutable_step_seconds()->set_median(0.125);
    for (int i = 1; i <= 2; ++i) {
      v1::SmokeEpoch& epoch = *smoke.add_epochs();
      epoch.set_epoch(i);
      epoch.set_footprint_bytes(i * 1'000'000'000);
      epoch.set_thermal("nominal");
    }
  }

  const std::string job_ = WriteJob();
};

TEST_F(SmokeTest, ATableOfTheEpochs) {
  EXPECT_NE(RunVerb({"check", "smoke", job_, "--rows", "0"}).code, 0);
  EXPECT_THAT(RunVerb({"check", "smoke", job_, "--rows", "8", "--threshold",
                       "smoke.epochs=2"}),
              Prints(AllOf(HasSubstr("EPOCH  LIVE  DRIVER  FOOTPRINT"),
                           HasSubstr("1.86 GiB"),
                           HasSubstr("by the footprint: +1.5 %"))));
  const v1::SmokeOptions& sent = Only(data().submitted).study().smoke();
  EXPECT_EQ(sent.rows(), 8);
  EXPECT_EQ(sent.thresholds().at("smoke.epochs"), 2);
}

class ProbeTest : public ClientTest {
 protected:
  ProbeTest() {
    AddJob(kId, v1::JOB_STATE_SUCCEEDED).set_kind(v1::JOB_KIND_PROBE);
    v1::StudyResult& result = runbook().study_result;
    result.set_verdict(v1::VERDICT_PASS);
    v1::ProbeResult& probe = *result.mutable_probe();
    probe.set_device("mps");
    probe.set_device_description("Apple M2\x1b[2J");
    probe.set_steps(8);
    probe.set_step_rows(16);
    probe.set_micro_batch_rows(4);
    probe.set_longest_row_tokens(1024);
    probe.mutable_step_seconds()->set_median(0.25);
    probe.set_tokens_per_second(12345);
    probe.set_peak_bytes(3'000'000'000);
    probe.set_peak_from("allocated");
    probe.mutable_estimate()->set_total_bytes(3'100'000'000);
  }
};

TEST_F(ProbeTest, ShowsRowsStepAndMemory) {
  EXPECT_THAT(RunVerb({"show", kId}),
              Prints(AllOf(HasSubstr("16 a step, 4 at a time"),
                           HasSubstr("0.25 s"), HasSubstr("12,345 tok/s"),
                           HasSubstr("2.79 GiB by the allocated"),
                           Not(HasSubstr("\x1b")))));
  runbook().study_result.mutable_probe()->set_steps(0);
  EXPECT_THAT(RunVerb({"show", kId}).out, Not(HasSubstr("tok/s")));
}

class CompareDevicesTest : public ClientTest {
 protected:
  CompareDevicesTest() {
    AddEnded(kId, v1::JOB_STATE_SUCCEEDED);
    v1::StudyResult& result = runbook().study_result;
    result.set_verdict(v1::VERDICT_WARN);
    v1::DeviceComparisonResult& comparison =
        *result.mutable_device_comparison();
    comparison.set_device("mps");
    comparison.set_decision(v1::DEVICE_DECISION_FIX_DATA);
    comparison.set_reason("a step is 10.0 % shorter\x1b[2J");
    comparison.set_steps(20);
    comparison.set_warmup_steps(3);
    comparison.set_same_batches(true);
    v1::DeviceTimes& cpu = *comparison.mutable_baseline();
    cpu.set_device("cpu");
    cpu.mutable_step_seconds()->set_median(2.5);
    cpu.set_tokens_per_second(1234);
    v1::DeviceTimes& mps = *comparison.mutable_measured();
    mps.set_device("mps");
    mps.mutable_step_seconds()->set_median(0.0305);
    mps.set_utilization_ratio(0.125);
    mps.set_data_wait_ratio(0.5);
    mps.set_peak_bytes(3'000'000'000);
  }

  const std::string job_ = WriteJob();
};

TEST_F(CompareDevicesTest, AsksForWhatWasSaid) {
  EXPECT_THAT(
      RunVerb({"check", "devices", job_, "--devices", "cpu,mps", "--steps", "5",
               "--warmup-steps", "0", "--threshold", "compare.speedup=0.3"}),
      Fails(11));
  const v1::DeviceComparisonOptions& options =
      Only(data().submitted).study().device_comparison();
  ASSERT_EQ(options.devices_size(), 2);
  EXPECT_EQ(options.devices(0), "cpu");
  EXPECT_EQ(options.devices(1), "mps");
  EXPECT_EQ(options.steps(), 5);
  EXPECT_TRUE(options.has_warmup_steps());
  EXPECT_EQ(options.warmup_steps(), 0);
  EXPECT_EQ(options.thresholds().at("compare.speedup"), 0.3);
}

TEST_F(CompareDevicesTest, ShowsBothAndTheDecision) {
  EXPECT_THAT(
      RunVerb({"check", "devices", job_}).out,
      AllOf(HasSubstr("cpu     2.5 s"), HasSubstr("mps     30.5 ms"),
            HasSubstr("12.5 %"), HasSubstr("unknown"), HasSubstr("2.79 GiB"),
            HasSubstr("20 steps each after 3 of warm-up, of the same "
                      "samples\nDecision: fix the data and the batch first "
                      "(a step is 10.0 % shorter\\x1b[2J)\n"),
            HasSubstr("Verdict: warn")));
  runbook().study_result.mutable_device_comparison()->set_decision(
      v1::DEVICE_DECISION_STAY_ON_CPU);
  data().jobs[0].set_kind(v1::JOB_KIND_DEVICE_COMPARISON);
  EXPECT_THAT(RunVerb({"show", kId}).out, HasSubstr("Decision: stay on cpu"));
}

TEST_F(CompareDevicesTest, RefusesWhatCannotBe) {
  for (const std::vector<std::string>& more :
       {Args{"--devices", "cpu"},
        {"--devices", "cpu,tpu"},
        {"--steps", "0"},
        {"--steps", "1001"},
        {"--warmup-steps", "-1"},
        {"--threshold", "compare.speedup"}}) {
    Args args = {"check", "devices", job_};
    args.insert(args.end(), more.begin(), more.end());
    EXPECT_EQ(RunVerb(args).code, 2) << more[0] << " " << more[1];
  }
  EXPECT_TRUE(data().submitted.empty());
}

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
  profile.add_unknown("the device's own times");
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

TEST_F(ProfileTextTest, ShowsStepsBlocksOperatorsAndWaits) {
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
        "Memory at its peak: driver 11.4 MiB, process 32.4 MiB\n",
        "Unknown: the device's own times\n",
        "Trace: trace.json.gz, 1.1 MiB, the last 5 steps"}) {
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
    options.insert(options.begin(), {"check", "profile"});
    return RunVerb(options);
  }

  const std::string job_ = WriteJob();
};

TEST_F(ProfileVerbTest, QueuesAStudyOfAJobFileAndShowsWhatItFound) {
  EXPECT_THAT(
      Profile({job_, "--steps", "20", "--warmup-steps", "4", "--threshold",
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
  EXPECT_THAT(RunVerb({"check", "smoke", kOtherId}), Fails(11));
  EXPECT_TRUE(data().submitted.back().study().has_smoke());
}

TEST_F(ProfileVerbTest, AStudyIsProfiledAsTheTrainingThatItLooksAt) {
  data().requests[kOtherId].mutable_study()->mutable_smoke();
  EXPECT_EQ(Profile({kOtherId, "--detach"}).code, 0);
  EXPECT_TRUE(data().submitted.at(0).study().has_profile());
}

TEST_F(ProfileVerbTest, TheTraceIsSavedAndTheVerdictKept) {
  const fs::path file = folder_ / "slow.json.gz";
  AddFile("result.json", "{}");
  EXPECT_THAT(Profile({kOtherId, "--trace", file.string()}),
              Ends(4, HasSubstr("Verdict: warn\n")));
  EXPECT_FALSE(fs::exists(file));
  AddFile("trace.json.gz", "packed");
  EXPECT_THAT(Profile({kOtherId, "--trace", file.string()}),
              Fails(11, HasSubstr("1 file, 6 B in ")));
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

TEST_F(ProfileVerbTest, WhatCannotBeIsRefused) {
  for (const char* steps : {"0", "1001", "-1", "many"}) {
    EXPECT_EQ(Profile({kOtherId, "--steps", steps}).code, 2) << steps;
  }
  EXPECT_EQ(Profile({kOtherId, "--warmup-steps", "0"}).code, 2);
  EXPECT_EQ(Profile({kOtherId, "--threshold", "none"}).code, 2);
  EXPECT_EQ(Profile({"01NONE"}).code, 4);
  EXPECT_EQ(Profile({"none.json"}).code, 2);
  EXPECT_TRUE(data().submitted.empty());
}

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
      Ends(10,
           AllOf(HasSubstr("3.00 GiB  0.25 s     1m30s  training.max_length "
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
  EXPECT_THAT(text, HasSubstr("  a step        0.5 s, 1,234 tok/s, by "
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
  queue.add_unknown("how long the queue is held");
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
  plan_.mutable_queue()->add_unknown(bad);
  plan_.mutable_data()->add_samplings()->set_name(bad);
  plan_.add_alternatives()->add_changes(bad);
  plan_.add_findings()->set_found(bad);
  const std::string text = Printed();
  EXPECT_THAT(text, AllOf(Not(HasSubstr("\x1b")), Not(HasSubstr("\nforged"))));
}

}  // namespace
}  // namespace mpsd::client
