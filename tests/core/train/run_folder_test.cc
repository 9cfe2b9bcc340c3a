// SPDX-License-Identifier: Apache-2.0
#include "core/train/run_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "core/base/file.h"
#include "nlohmann/json.hpp"
#include "tests/core/golden_model.h"

namespace mpsd::train {
namespace {

using testing_support::FreshFolder;

StepReport Step(int64_t step) {
  StepReport report;
  report.step = step;
  report.loss = 0.1 + 0.2;
  return report;
}

TEST(RunFolderTest, AResumedRunWritesEveryStepOnce) {
  const auto path = FreshFolder("run_folder");
  {
    auto folder = *RunFolder::Open(path, 0, -1);
    for (int64_t i = 1; i <= 5; ++i) ASSERT_TRUE(folder->Append(Step(i)).ok());
    ASSERT_TRUE(folder->Append(EvalReport{0, 3.5, 1, 1, {}}).ok());
    ASSERT_TRUE(folder->Append(EvalReport{4, 2.5, 1, 1, {{"f1", 0.5}}}).ok());
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
    ASSERT_TRUE(folder->Append(EvalReport{step, 3.5, 1, 1, {}}).ok());
  }
  std::vector<int64_t> steps;
  std::ifstream evals(path / "eval.jsonl");
  for (std::string line; std::getline(evals, line);) {
    steps.push_back(nlohmann::json::parse(line)["step"]);
  }
  EXPECT_THAT(steps, testing::ElementsAre(0, 4));
}

TEST(RunFolderTest, MetricsOfAnEvaluationAreNamedAsTransformersNamesThem) {
  const EvalReport report{4, 2.5, 0, 1, {{"f1", 0.5}}};
  EXPECT_EQ(nlohmann::json::parse(ToJsonLine(report))["eval_f1"], 0.5);
}

TEST(RunFolderTest, ALineHoldsWhatTheReportHolds) {
  StepReport report = Step(7);
  report.memory.driver_allocated = 123;
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

TEST(RunFolderTest, AFolderThatCannotBeMadeIsAnError) {
  const auto path = FreshFolder("run_folder_bad");
  std::ofstream(path / "file") << "x";
  EXPECT_FALSE(RunFolder::Open(path / "file", 0, -1).ok());
}

}  // namespace
}  // namespace mpsd::train
