// SPDX-License-Identifier: Apache-2.0
#include "client/smoke.h"

#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

using testing::HasSubstr;

class SmokeTest : public ClientTest {
 protected:
  SmokeTest() {
    std::ofstream(folder_ / "job.json")
        << R"({"model": "org/m", "dataset": {"train": "t.jsonl"}})";
    std::ofstream(folder_ / "t.jsonl") << "{\"text\": \"a\"}\n";
    AddJob(kId, v1::JOB_STATE_SUCCEEDED);
    AddState(kId, v1::JOB_STATE_SUCCEEDED);
    v1::StudyResult& result = daemon_->runbook().study_result;
    result.set_verdict(v1::VERDICT_PASS);
    v1::SmokeResult& smoke = *result.mutable_smoke();
    smoke.set_device("cpu");
    smoke.set_rows(8);
    smoke.set_steps_per_epoch(4);
    smoke.set_memory_from("footprint");
    smoke.set_memory_growth(0.015);
    smoke.mutable_environment()->set_train_sha256("abc");
    smoke.mutable_step_seconds()->set_median(0.125);
    for (int i = 1; i <= 2; ++i) {
      v1::SmokeEpoch& epoch = *smoke.add_epochs();
      epoch.set_epoch(i);
      epoch.set_footprint_bytes(i * 1'000'000'000);
      epoch.set_thermal("nominal");
    }
  }

  std::string Job() const { return (folder_ / "job.json").string(); }
  std::string File(const std::string& text) const {
    std::ofstream(folder_ / "there.json") << text;
    return (folder_ / "there.json").string();
  }
};

TEST_F(SmokeTest, ATableOfTheEpochs) {
  const Result shown =
      RunVerb({"smoke", Job(), "--rows", "8", "--threshold", "smoke.epochs=2"});
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("EPOCH  LIVE  DRIVER  FOOTPRINT"));
  EXPECT_THAT(shown.out, HasSubstr("2.0 GB"));
  EXPECT_THAT(shown.out, HasSubstr("by the footprint: +1.5 %"));
  ASSERT_EQ(data().submitted.size(), 1u);
  const v1::SmokeOptions& sent = data().submitted[0].study().smoke();
  EXPECT_EQ(sent.rows(), 8);
  EXPECT_EQ(sent.thresholds().at("smoke.epochs"), 2);
  EXPECT_FALSE(sent.has_against());
}

// What --json prints is what --against reads.
TEST_F(SmokeTest, AgainstAnotherMachinesResult) {
  const Result json = RunVerb({"smoke", Job(), "--json"});
  ASSERT_EQ(json.code, 0) << json.err;
  const Result shown = RunVerb({"smoke", Job(), "--against", File(json.out)});
  EXPECT_EQ(shown.code, 0) << shown.err;
  ASSERT_EQ(data().submitted.size(), 2u);
  const v1::SmokeReference& sent =
      data().submitted[1].study().smoke().against();
  EXPECT_EQ(sent.environment().train_sha256(), "abc");
  EXPECT_EQ(sent.step_seconds(), 0.125);
  ASSERT_EQ(sent.epoch_bytes_size(), 2);
  EXPECT_EQ(sent.epoch_bytes(1), 2e9);
}

TEST_F(SmokeTest, WhatIsNoResultIsRefusedBeforeAnythingIsSent) {
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("{}"),
        std::string("{\"probe\": {}}"), std::string("{\"smoke\": 7}"),
        std::string(100'000, '[')}) {
    const Result refused = RunVerb({"smoke", Job(), "--against", File(text)});
    EXPECT_EQ(refused.code, 2) << text.substr(0, 20);
    EXPECT_THAT(refused.err, HasSubstr("there.json"));
  }
  EXPECT_EQ(RunVerb({"smoke", Job(), "--against", "/nowhere"}).code, 2);
  EXPECT_NE(RunVerb({"smoke", Job(), "--rows", "0"}).code, 0);
  EXPECT_TRUE(data().submitted.empty());
}

TEST_F(SmokeTest, TheChartHasACurveForEachCounter) {
  const SvgChart chart = MemoryChart(daemon_->runbook().study_result.smoke());
  ASSERT_EQ(chart.curves.size(), 1u) << "the others were not told";
  EXPECT_EQ(chart.curves[0].name, "footprint");
  EXPECT_EQ(chart.curves[0].points.size(), 2u);
  EXPECT_THAT(chart.Draw(), HasSubstr("<svg"));
}

}  // namespace
}  // namespace mpsd::client
