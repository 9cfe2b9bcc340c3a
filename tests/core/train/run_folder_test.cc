// SPDX-License-Identifier: Apache-2.0
#include "core/train/run_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/base/file.h"
#include "nlohmann/json.hpp"
#include "tests/core/golden_model.h"

namespace mpsd::train {
namespace {

using testing_support::FreshFolder;

report::Progress Step(int64_t step) {
  report::Progress report;
  report.step = step;
  report.loss = 0.1 + 0.2;
  return report;
}

TEST(RunFolderTest, AResumedRunWritesEveryStepOnce) {
  const auto path = FreshFolder("run_folder");
  {
    auto folder = *RunFolder::Open(path, 0, -1);
    for (int64_t i = 1; i <= 5; ++i) ASSERT_TRUE(folder->Append(Step(i)).ok());
    const report::Evaluated before{0, 3.5, 1, 1, {}};
    const report::Evaluated after{4, 2.5, 1, 1, {{"f1", 0.5}}};
    ASSERT_TRUE(folder->Append(before).ok());
    ASSERT_TRUE(folder->Append(after).ok());
  }
  std::ofstream(path / "metrics.jsonl", std::ios::app) << R"({"step": 6, "lo)";
  {
    auto folder = *RunFolder::Open(path, 3, 0);
    ASSERT_TRUE(folder->Append(Step(4)).ok());
  }
  std::vector<int64_t> steps;
  std::ifstream metrics(path / "metrics.jsonl");
  for (std::string line; std::getline(metrics, line);) {
    steps.push_back(nlohmann::json::parse(line)["step"]);
  }
  EXPECT_THAT(steps, testing::ElementsAre(1, 2, 3, 4));
  const std::string evals = *base::ReadFile(path / "eval.jsonl");
  EXPECT_THAT(evals, testing::HasSubstr("3.5"));
  EXPECT_THAT(evals, testing::Not(testing::HasSubstr("2.5")));
}

// Step 0 is evaluated again by a run that begins again, and so is a step that
// a stop took from its evaluation.
TEST(RunFolderTest, AnEvaluationThatIsRepeatedHasOneLine) {
  const auto path = FreshFolder("run_folder_evals");
  for (const int64_t seen : {-1, -1, 0}) {
    auto folder = *RunFolder::Open(path, seen > -1 ? 4 : 0, seen);
    const int64_t step = seen > -1 ? 4 : 0;
    ASSERT_TRUE(folder->Append(report::Evaluated{step, 3.5, 1, 1, {}}).ok());
  }
  std::vector<int64_t> steps;
  std::ifstream evals(path / "eval.jsonl");
  for (std::string line; std::getline(evals, line);) {
    steps.push_back(nlohmann::json::parse(line)["step"]);
  }
  EXPECT_THAT(steps, testing::ElementsAre(0, 4));
}

TEST(RunFolderTest, MetricsOfAnEvaluationAreNamedAsTransformersNamesThem) {
  const report::Evaluated report{4, 2.5, 0, 1, {{"f1", 0.5}}};
  EXPECT_EQ(nlohmann::json::parse(ToJsonLine(report))["eval_f1"], 0.5);
}

TEST(RunFolderTest, ALineHoldsWhatTheReportHolds) {
  report::Progress report = Step(7);
  report.memory.driver_allocated_bytes = 123;
  const auto line = nlohmann::json::parse(ToJsonLine(report));
  EXPECT_EQ(line["step"], 7);
  EXPECT_EQ(line["loss"].get<double>(), 0.1 + 0.2);
  EXPECT_EQ(line["memory"]["driver_allocated_bytes"], 123);
  EXPECT_FALSE(line["memory"].contains("current_allocated_bytes"));
  EXPECT_FALSE(line.contains("cpu_fallback_ops"));
  report.device = "mps";
  report.cpu_fallback_ops = {{"aten::a", 2}};
  const auto on_mps = nlohmann::json::parse(ToJsonLine(report));
  EXPECT_EQ(on_mps["device"], "mps");
  EXPECT_EQ(on_mps["cpu_fallback_ops"]["aten::a"], 2);
  for (const char* field :
       {"epoch", "learning_rate", "grad_norm", "tokens", "seconds"}) {
    EXPECT_TRUE(line.contains(field)) << field;
  }
}

// To the byte, as in the first release: scripts of people read them.
TEST(RunFolderTest, LinesAreThoseOfTheFirstRelease) {
  report::Progress report = Step(7);
  report.total_steps = 8;
  report.epoch = 0.5;
  report.learning_rate = 2e-4;
  report.grad_norm = 2;
  report.tokens = 60;
  report.padded_tokens = 80;
  report.label_tokens = 30;
  report.seconds = 0.25;
  report.data_wait_seconds = 0.125;
  report.device = "mps";
  report.memory = {1, 2, 3, 4, 5};
  report.cpu_fallback_ops = {{"aten::a", 2}};
  EXPECT_EQ(
      ToJsonLine(report),
      R"({"step":7,"total_steps":8,"epoch":0.5,"loss":0.30000000000000004,)"
      R"("learning_rate":0.0002,"grad_norm":2.0,"tokens":60,)"
      R"("padded_tokens":80,"label_tokens":30,"seconds":0.25,)"
      R"("data_wait_seconds":0.125,"device":"mps","memory":{)"
      R"("current_allocated_bytes":1,"peak_allocated_bytes":5,)"
      R"("driver_allocated_bytes":2,"recommended_max_bytes":3,)"
      R"("footprint_bytes":4},"cpu_fallback_ops":{"aten::a":2}})");
  report.memory.current_allocated_bytes.reset();
  EXPECT_THAT(ToJsonLine(report),
              testing::HasSubstr(R"("memory":{"peak_allocated_bytes":5,)"
                                 R"("driver_allocated_bytes":2,)"));
  report.device_utilization_ratio = 0.5;
  EXPECT_THAT(ToJsonLine(report),
              testing::EndsWith(R"(,"device_utilization_ratio":0.5})"));
  report.device_utilization_ratio.reset();
  // As on the CPU.
  report.memory = {};
  report.memory.footprint_bytes = 4;
  report.cpu_fallback_ops.clear();
  EXPECT_THAT(
      ToJsonLine(report),
      testing::EndsWith(R"("device":"mps","memory":{"footprint_bytes":4}})"));
  EXPECT_EQ(ToJsonLine(report::Evaluated{4, 2.5, 9, 0.5, {{"f1", 0.5}}}),
            R"({"step":4,"eval_loss":2.5,"label_tokens":9,"seconds":0.5,)"
            R"("eval_f1":0.5})");
}

std::vector<std::string> EventFiles(const std::filesystem::path& path) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(path / "runs")) {
    files.push_back(*base::ReadFile(entry.path()));
  }
  std::sort(files.begin(), files.end(),
            [](const auto& a, const auto& b) { return a.size() < b.size(); });
  return files;
}

TEST(RunFolderTest, CurvesHaveAFileAnAttempt) {
  const auto path = FreshFolder("run_folder_curves");
  {
    auto folder = *RunFolder::Open(path, 0, -1);
    for (int64_t i = 1; i <= 5; ++i) ASSERT_TRUE(folder->Append(Step(i)).ok());
    ASSERT_TRUE(folder->Append(report::Evaluated{5, 2, 1, 1, {}}).ok());
  }
  // A run without evaluations, too, goes on behind its checkpoint's step.
  auto folder = *RunFolder::Open(path, 3, -1);
  ASSERT_TRUE(folder->Append(Step(4)).ok());
  const auto files = EventFiles(path);
  ASSERT_EQ(files.size(), 2u);
  EXPECT_THAT(files[1], testing::HasSubstr("eval/loss"));
  // The step 4 (field 2) and a session's start (field 7).
  EXPECT_THAT(files[0], testing::HasSubstr("\x10\x04\x3a\x02\x08\x01"));
  EXPECT_THAT(files[0], testing::HasSubstr("train/loss"));
}

TEST(RunFolderTest, ARunGoesOnWithoutCurves) {
  const auto path = FreshFolder("run_folder_no_curves");
  std::ofstream(path / "runs") << "x";
  auto folder = RunFolder::Open(path, 0, -1);
  ASSERT_TRUE(folder.ok()) << folder.status();
  EXPECT_THAT(std::string((*folder)->curves_status().message()),
              testing::HasSubstr("runs"));
  EXPECT_TRUE((*folder)->Append(Step(1)).ok());
}

TEST(RunFolderTest, AFolderThatCannotBeMadeIsAnError) {
  const auto path = FreshFolder("run_folder_bad");
  std::ofstream(path / "file") << "x";
  EXPECT_FALSE(RunFolder::Open(path / "file", 0, -1).ok());
}

}  // namespace
}  // namespace mpsd::train
