// SPDX-License-Identifier: Apache-2.0
#include "client/study.h"

#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

class StudyTest : public ClientTest {
 protected:
  StudyTest() {
    arguments_.job_file = WriteJob();
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
  v1::StudyResult result;
  EXPECT_EQ(FindOut(TestConsole(), arguments_, study_, &result), ExitCode::kOk);
  EXPECT_EQ(err_.str(), "");
  EXPECT_EQ(RunIt(), ExitCode::kOk);
  EXPECT_THAT(out_.str(), HasSubstr("mpsctl watch"));
}

// "$FILE" of a script that has not set it is no option that was left out.
TEST_F(StudyTest, AnEmptyValueIsRefused) {
  const std::string& job = arguments_.job_file;
  for (const Args& args : {Args{"smoke", job, "--thresholds", ""},
                           {"smoke", ""},
                           {"profile", job, "--trace", ""},
                           {"sweep", job, "--batch", "--csv", ""},
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

TEST_F(StudyTest, WithoutAJobFileNothingIsSubmitted) {
  arguments_.job_file += ".none";
  EXPECT_EQ(RunIt(), ExitCode::kBadInput);
  EXPECT_TRUE(data().submitted.empty());
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

TEST(VerdictName, IsShort) {
  EXPECT_EQ(VerdictName(v1::VERDICT_PASS), "ok");
  EXPECT_EQ(VerdictName(v1::VERDICT_UNSPECIFIED), "-");
}

class StudyPrintersTest : public ClientTest {
 protected:
  std::string Printed(const v1::StudyResult& result) {
    PrintAnyStudy(result, TestConsole());
    return out_.str();
  }
};

TEST_F(StudyPrintersTest, EachKindHasItsOwn) {
  v1::StudyResult result;
  EXPECT_EQ(Printed(result), "") << "one of a newer daemon";
  result.mutable_device_comparison()->set_decision(v1::DEVICE_DECISION_GO);
  EXPECT_THAT(Printed(result), HasSubstr("Decision: go"));
  result.mutable_smoke()->set_device("mps");
  EXPECT_THAT(Printed(result), HasSubstr("on mps"));
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
  EXPECT_NE(RunVerb({"smoke", job_, "--rows", "0"}).code, 0);
  EXPECT_THAT(
      RunVerb({"smoke", job_, "--rows", "8", "--threshold", "smoke.epochs=2"}),
      Prints(AllOf(HasSubstr("EPOCH  LIVE  DRIVER  FOOTPRINT"),
                   HasSubstr("2.0 GB"),
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
                           HasSubstr("0.25 s"), HasSubstr("12,345 tokens/s"),
                           HasSubstr("3.0 GB by the allocated"),
                           Not(HasSubstr("\x1b")))));
  runbook().study_result.mutable_probe()->set_steps(0);
  EXPECT_THAT(RunVerb({"show", kId}).out, Not(HasSubstr("tokens/s")));
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
      RunVerb({"compare-devices", job_, "--devices", "cpu,mps", "--steps", "5",
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

TEST_F(CompareDevicesTest, LeavesTheDefaultsToTheDaemon) {
  RunVerb({"compare-devices", job_});
  const auto& options = Only(data().submitted).study().device_comparison();
  EXPECT_EQ(options.devices_size(), 0);
  EXPECT_EQ(options.steps(), 0);
  EXPECT_FALSE(options.has_warmup_steps());
}

TEST_F(CompareDevicesTest, ShowsBothAndTheDecision) {
  EXPECT_THAT(
      RunVerb({"compare-devices", job_}).out,
      AllOf(HasSubstr("cpu     2.5 s"), HasSubstr("mps     30.5 ms"),
            HasSubstr("12.5 %"), HasSubstr("unknown"), HasSubstr("3.0 GB"),
            HasSubstr("20 steps each after 3 of warm-up, of the same "
                      "samples\nDecision: fix the data and the batch first "
                      "(a step is 10.0 % shorter\\x1b[2J)\n"),
            HasSubstr("Verdict: warn")));
  runbook().study_result.mutable_device_comparison()->set_decision(
      v1::DEVICE_DECISION_STAY_ON_CPU);
  data().jobs[0].set_kind(v1::JOB_KIND_DEVICE_COMPARISON);
  EXPECT_THAT(RunVerb({"show", kId}).out, HasSubstr("Decision: stay on cpu"));
}

TEST_F(CompareDevicesTest, ForAScript) {
  const Result result = RunVerb({"compare-devices", job_, "--json"});
  EXPECT_EQ(result.code, 11);
  const auto json = ParseJson(result.out);
  EXPECT_EQ(json["device_comparison"]["decision"], "FIX_DATA");
}

TEST_F(CompareDevicesTest, RefusesWhatCannotBe) {
  for (const std::vector<std::string>& more :
       {Args{"--devices", "cpu"},
        {"--devices", "cpu,tpu"},
        {"--steps", "0"},
        {"--steps", "1001"},
        {"--warmup-steps", "-1"},
        {"--threshold", "compare.speedup"}}) {
    Args args = {"compare-devices", job_};
    args.insert(args.end(), more.begin(), more.end());
    EXPECT_EQ(RunVerb(args).code, 2) << more[0] << " " << more[1];
  }
  EXPECT_TRUE(data().submitted.empty());
}

}  // namespace
}  // namespace mpsd::client
