// SPDX-License-Identifier: Apache-2.0
#include "core/study/batch_sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <new>

#include "tests/core/study/study_job.h"

namespace mpsd::study {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;
using testing_support::RecordingObserver;
using train::StopRequest;
using wire::JobKind;

// A machine that is out of memory once a step has more than `most` rows, all
// of them the longest.
struct SmallMachine : RecordingObserver {
  explicit SmallMachine(int64_t rows) : most(rows) {}
  void OnStep(const report::Progress& step) override {
    RecordingObserver::OnStep(step);
    if (row_tokens == 0) row_tokens = *step.padded_tokens;  // of the first row
    if (*step.padded_tokens > most * row_tokens) throw std::bad_alloc();
  }
  int64_t most, row_tokens = 0;
};

const json kQuick = {{"steps", 1}, {"warmup_steps", 1}};

std::vector<int64_t> Batches(const json& sweep) {
  std::vector<int64_t> batches;
  for (const json& point : sweep["points"]) batches.push_back(point["batch"]);
  return batches;
}

TEST(BatchSweepTest, EndsWithTheRowsOfTheData) {
  StudyJob job("sweep_rows");  // of ten rows
  RecordingObserver observer;
  auto ran = job.Study(JobKind::kBatchSweep, kQuick, observer);
  ASSERT_TRUE(ran.ok()) << ran.status();
  const json sweep = job.Result()["batch_sweep"];
  EXPECT_THAT(Batches(sweep), testing::ElementsAre(1, 2, 4, 8, 10));
  EXPECT_EQ(sweep["largest_batch"], 10);
  EXPECT_EQ(sweep["ended_by"], "rows");
  EXPECT_EQ(sweep["job_batch"], 2);
  EXPECT_GT(sweep["knee_batch"].get<int>(), 0);
  for (const json& point : sweep["points"]) {
    EXPECT_TRUE(point["fits"].get<bool>());
    EXPECT_GT(point["tokens_per_second"].get<double>(), 0);
    EXPECT_GT(point["peak_bytes"].get<int64_t>(), 0);
    EXPECT_GT(point["step_seconds"]["median"].get<double>(), 0);
  }
  EXPECT_EQ(job.Finding("sweep.largest")["value"], 10);
  EXPECT_LE(observer.steps.back().step, observer.steps.back().total_steps);
}

TEST(BatchSweepTest, FindsExactlyWhatFits) {
  for (const int64_t most : {1, 5, 7}) {
    StudyJob job("sweep_exact");
    SmallMachine machine(most);
    auto ran = job.Study(JobKind::kBatchSweep, kQuick, machine);
    ASSERT_TRUE(ran.ok()) << ran.status();
    const json sweep = job.Result()["batch_sweep"];
    EXPECT_EQ(sweep["largest_batch"], most);
    EXPECT_EQ(sweep["ended_by"], "memory");
    for (const json& point : sweep["points"]) {
      EXPECT_EQ(point["fits"], point["batch"].get<int64_t>() <= most);
      EXPECT_EQ(point.value("out_of_memory", false), !point["fits"]);
    }
    EXPECT_EQ(job.Finding("sweep.job")["verdict"],
              most < 2 ? "VERDICT_FAIL" : job.Finding("sweep.job")["verdict"]);
  }
}

TEST(BatchSweepTest, NothingFits) {
  StudyJob job("sweep_none");
  RecordingObserver observer;
  json options = kQuick;
  options["memory_limit_bytes"] = 1.0;
  auto ran = job.Study(JobKind::kBatchSweep, options, observer);
  ASSERT_TRUE(ran.ok()) << ran.status();
  EXPECT_EQ(job.Result()["batch_sweep"]["largest_batch"], 0);
  EXPECT_EQ(job.Result()["verdict"], "VERDICT_FAIL");
}

TEST(BatchSweepTest, BoundsOfTheSearch) {
  StudyJob job("sweep_bounds");
  RecordingObserver observer;
  json options = kQuick;
  options["first_batch"] = 3;
  options["max_batch"] = 4;
  auto ran = job.Study(JobKind::kBatchSweep, options, observer);
  ASSERT_TRUE(ran.ok()) << ran.status();
  const json sweep = job.Result()["batch_sweep"];
  EXPECT_THAT(Batches(sweep), testing::ElementsAre(3, 4));
  EXPECT_EQ(sweep["ended_by"], "max_batch");
  for (const json& wrong :
       {json{{"steps", 1001}}, json{{"max_batch", 65537}},
        json{{"first_batch", -1}}, json{{"memory_limit_bytes", -5}}}) {
    EXPECT_EQ(job.Study(JobKind::kBatchSweep, wrong, observer).status().code(),
              absl::StatusCode::kInvalidArgument)
        << wrong;
  }
}

// A stop in the middle keeps every point: none is measured twice.
TEST(BatchSweepTest, GoesOnWhereItWasStopped) {
  StudyJob job("sweep_resumed");
  RecordingObserver first;
  first.stop_after = 12;  // within the third of five batches, 5 steps each
  auto stopped = job.Study(JobKind::kBatchSweep, kQuick, first);
  ASSERT_TRUE(stopped.ok()) << stopped.status();
  EXPECT_EQ(stopped->stopped, StopRequest::kPreempt);
  EXPECT_FALSE(fs::exists(job.context().out_dir / "result.json"));
  RecordingObserver second;
  ASSERT_TRUE(job.Study(JobKind::kBatchSweep, kQuick, second).ok());
  EXPECT_THAT(Batches(job.Result()["batch_sweep"]),
              testing::ElementsAre(1, 2, 4, 8, 10));
  EXPECT_EQ(second.steps.front().step, 11) << "two batches were there";
  // One more for batch 8, whose epochs of ten rows end with a partial step.
  EXPECT_EQ(second.steps.size(), 16u);
}

// Twice the worker died over batch 4, as by the system's hand.
TEST(BatchSweepTest, ABatchThatEndsTheWorkerDoesNotFit) {
  StudyJob job("sweep_killed");
  const fs::path file = job.context().out_dir / "points.jsonl";
  RecordingObserver first;
  first.stop_after = 12;
  ASSERT_TRUE(job.Study(JobKind::kBatchSweep, kQuick, first).ok());
  std::string text = *base::ReadFile(file);
  const size_t end = text.find('\n');
  json head = json::parse(text.substr(0, end));
  head["begun"] = 4;
  head["ends"] = 1;
  std::ofstream(file) << head.dump() << text.substr(end);
  RecordingObserver second;
  ASSERT_TRUE(job.Study(JobKind::kBatchSweep, kQuick, second).ok());
  const json sweep = job.Result()["batch_sweep"];
  EXPECT_EQ(sweep["largest_batch"], 3);
  EXPECT_THAT(job.Finding("sweep.largest")["found"].get<std::string>(),
              HasSubstr("without a word"));
}

}  // namespace
}  // namespace mpsd::study
