// SPDX-License-Identifier: Apache-2.0
#include "client/compare_devices.h"

#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

using testing::HasSubstr;

class CompareDevicesTest : public ClientTest {
 protected:
  CompareDevicesTest() {
    job_ = Write("job.json",
                 R"({"model": "org/m", "dataset": {"train": "t.jsonl"}})");
    Write("t.jsonl", "{\"text\": \"a\"}\n");
    AddJob(kId, v1::JOB_STATE_SUCCEEDED);
    AddState(kId, v1::JOB_STATE_SUCCEEDED);
    v1::StudyResult& result = daemon_->runbook().study_result;
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

  std::string job_;
};

TEST_F(CompareDevicesTest, AsksForWhatWasSaid) {
  const Result result =
      RunVerb({"compare-devices", job_, "--devices", "cpu,mps", "--steps", "5",
               "--warmup-steps", "0", "--threshold", "compare.speedup=0.3"});
  EXPECT_EQ(result.code, 11) << result.err;
  ASSERT_EQ(data().submitted.size(), 1u);
  const v1::DeviceComparisonOptions& options =
      data().submitted[0].study().device_comparison();
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
  ASSERT_EQ(data().submitted.size(), 1u);
  const auto& options = data().submitted[0].study().device_comparison();
  EXPECT_EQ(options.devices_size(), 0);
  EXPECT_EQ(options.steps(), 0);
  EXPECT_FALSE(options.has_warmup_steps());
}

TEST_F(CompareDevicesTest, ShowsBothAndTheDecision) {
  const Result result = RunVerb({"compare-devices", job_});
  EXPECT_THAT(result.out, HasSubstr("cpu     2.5 s"));
  EXPECT_THAT(result.out, HasSubstr("mps     30.5 ms"));
  EXPECT_THAT(result.out, HasSubstr("12.5 %"));
  EXPECT_THAT(result.out, HasSubstr("not told"));
  EXPECT_THAT(result.out, HasSubstr("3.0 GB"));
  EXPECT_THAT(result.out,
              HasSubstr("20 steps each after 3 of warm-up, of the same "
                        "samples\nDecision: fix the data and the batch first "
                        "(a step is 10.0 % shorter\\x1b[2J)\n"));
  EXPECT_THAT(result.out, HasSubstr("Verdict: warn"));
  daemon_->runbook().study_result.mutable_device_comparison()->set_decision(
      v1::DEVICE_DECISION_STAY_ON_CPU);
  data().jobs[0].set_kind(v1::JOB_KIND_DEVICE_COMPARISON);
  EXPECT_THAT(RunVerb({"show", kId}).out, HasSubstr("Decision: stay on cpu"));
}

TEST_F(CompareDevicesTest, ForAScript) {
  const Result result = RunVerb({"compare-devices", job_, "--json"});
  EXPECT_EQ(result.code, 11);
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["device_comparison"]["decision"], "FIX_DATA");
}

TEST_F(CompareDevicesTest, RefusesWhatCannotBe) {
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"--devices", "cpu"},
        {"--devices", "cpu,tpu"},
        {"--steps", "0"},
        {"--steps", "1001"},
        {"--warmup-steps", "-1"},
        {"--threshold", "compare.speedup"}}) {
    std::vector<std::string> args = {"compare-devices", job_};
    args.insert(args.end(), more.begin(), more.end());
    EXPECT_EQ(RunVerb(args).code, 2) << more[0] << " " << more[1];
  }
  EXPECT_TRUE(data().submitted.empty());
}

}  // namespace
}  // namespace mpsd::client
