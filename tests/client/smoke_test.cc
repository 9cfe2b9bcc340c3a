// SPDX-License-Identifier: Apache-2.0
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
    smoke.mutable_step_seconds()->set_median(0.125);
    for (int i = 1; i <= 2; ++i) {
      v1::SmokeEpoch& epoch = *smoke.add_epochs();
      epoch.set_epoch(i);
      epoch.set_footprint_bytes(i * 1'000'000'000);
      epoch.set_thermal("nominal");
    }
  }

  std::string Job() const { return (folder_ / "job.json").string(); }
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
}

TEST_F(SmokeTest, RowsHaveBounds) {
  EXPECT_NE(RunVerb({"smoke", Job(), "--rows", "0"}).code, 0);
  EXPECT_TRUE(data().submitted.empty());
}

}  // namespace
}  // namespace mpsd::client
