// SPDX-License-Identifier: Apache-2.0
#include "client/sweep_batch.h"

#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

using testing::HasSubstr;
using testing::Not;

class SweepBatchTest : public ClientTest {
 protected:
  SweepBatchTest() {
    std::ofstream(folder_ / "job.json")
        << R"({"model": "org/m", "dataset": {"train": "t.jsonl"}})";
    std::ofstream(folder_ / "t.jsonl") << "{\"text\": \"a\"}\n";
    AddJob(kId, v1::JOB_STATE_SUCCEEDED);
    AddState(kId, v1::JOB_STATE_SUCCEEDED);
    v1::StudyResult& result = daemon_->runbook().study_result;
    result.set_verdict(v1::VERDICT_WARN);
    v1::BatchSweepResult& sweep = *result.mutable_batch_sweep();
    sweep.set_device("cpu");
    for (int batch = 1; batch <= 4; batch *= 2) {
      v1::BatchPoint& point = *sweep.add_points();
      point.set_batch(batch);
      point.set_fits(true);
      point.set_peak_bytes(batch * 1'000'000'000LL);
      point.set_tokens_per_second(1000 * batch);
      point.mutable_step_seconds()->set_median(0.5);
    }
    v1::BatchPoint& miss = *sweep.add_points();
    miss.set_batch(8);
    miss.set_why_not("out of memory, \"really\"\x1b[2J");
    sweep.set_largest_batch(4);
    sweep.set_knee_batch(2);
    sweep.set_job_batch(1);
  }

  std::string Job() const { return (folder_ / "job.json").string(); }
  std::string Read(const std::string& name) const {
    std::ifstream file(folder_ / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  const v1::BatchSweepResult& sweep() {
    return daemon_->runbook().study_result.batch_sweep();
  }
};

TEST_F(SweepBatchTest, ATableAndTheFilesThatWereAskedFor) {
  const Result shown = RunVerb({"sweep", Job(), "--batch", "--max-batch", "8",
                                "--sweep-steps", "3", "--memory-limit", "1.5",
                                "--csv", (folder_ / "b.csv").string()});
  EXPECT_EQ(shown.code, 11) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("BATCH  TOKENS/S"));
  EXPECT_THAT(shown.out, HasSubstr("knee"));
  EXPECT_THAT(shown.out, HasSubstr("largest"));
  EXPECT_THAT(shown.out, Not(HasSubstr("\x1b")));
  EXPECT_THAT(Read("b.csv"), HasSubstr("\n2,true,2000000000,0.5,"));
  ASSERT_EQ(data().submitted.size(), 1u);
  const v1::BatchSweepOptions& sent = data().submitted[0].study().batch_sweep();
  EXPECT_EQ(sent.max_batch(), 8);
  EXPECT_EQ(sent.steps(), 3);
  EXPECT_EQ(sent.memory_limit_bytes(), 1.5e9);
}

TEST_F(SweepBatchTest, ForAScript) {
  const Result json = RunVerb({"sweep", Job(), "--batch", "--json"});
  EXPECT_EQ(json.code, 11);
  EXPECT_EQ(nlohmann::json::parse(json.out)["batch_sweep"]["knee_batch"], 2);
}

TEST_F(SweepBatchTest, AFileThatCannotBeWrittenLeavesTheResult) {
  // No file system has such names, which only writing tells.
  const Result shown = RunVerb({"sweep", Job(), "--batch", "--csv",
                                (folder_ / std::string(300, 'b')).string()});
  EXPECT_EQ(shown.code, 2);
  EXPECT_THAT(shown.out, HasSubstr("BATCH"));
  EXPECT_THAT(shown.err, HasSubstr(std::string("mpsctl show ") + kId));
}

TEST_F(SweepBatchTest, OptionsHaveBoundsAndBelongToTheBatchSweep) {
  EXPECT_NE(RunVerb({"sweep", Job(), "--batch", "--max-batch", "65537"}).code,
            0);
  EXPECT_NE(RunVerb({"sweep", Job(), "--csv", "x"}).code, 0);
  EXPECT_TRUE(data().submitted.empty());
}

TEST_F(SweepBatchTest, TheTableForAProgram) {
  const std::string csv = BatchSweepCsv(sweep());
  EXPECT_THAT(csv, HasSubstr("\n8,false,0,,,,,,,false,\"out of memory, "
                             "\"\"really\"\"\\x1b[2J\"\n"));
  for (const char* row : {"batch,", "1,true", "4,true"}) {
    EXPECT_THAT(csv, HasSubstr(row));
  }
}

}  // namespace
}  // namespace mpsd::client
