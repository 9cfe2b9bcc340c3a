// SPDX-License-Identifier: Apache-2.0
#include "core/train/run.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/tensorfile/safetensors.h"
#include "tests/core/train/lm_job.h"

namespace mpsd::train {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing_support::JobFolder;
using testing_support::RecordingObserver;

TEST(RunTest, ARunGivesEverythingItPromises) {
  const JobFolder folder("run_run");
  RecordingObserver observer;
  auto result = Train(folder, "out", observer);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->steps, 8);
  EXPECT_EQ(observer.steps.size(), 8u);
  ASSERT_EQ(observer.evals.size(), 3u);  // before, in the middle, at the end
  EXPECT_EQ(observer.evals[0].step, 0);
  EXPECT_LT(*result->eval_loss_after, *result->eval_loss_before);
  EXPECT_EQ(observer.checkpoints.size(), 2u);
  const fs::path out = folder.path() / "out";
  for (const char* file :
       {"metrics.jsonl", "eval.jsonl", "runs", "run.json", "checkpoints/step-8",
        "adapter/adapter_config.json", "adapter/adapter_model.safetensors"}) {
    EXPECT_TRUE(fs::exists(out / file)) << file;
  }
  for (const report::Progress& step : observer.steps) {
    EXPECT_GT(step.tokens, 0);
    EXPECT_GE(step.padded_tokens, step.tokens);
    EXPECT_GT(step.grad_norm, 0);
  }
}

TEST(RunTest, ARunWhoseCurvesCannotBeWrittenSaysSoAndGoesOn) {
  const JobFolder folder("run_no_curves");
  fs::create_directories(folder.path() / "out");
  std::ofstream(folder.path() / "out" / "runs") << "a file";
  RecordingObserver observer;
  auto result = Train(folder, "out", observer);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->steps, 8);
  EXPECT_THAT(observer.warnings(),
              testing::Contains(HasSubstr("TensorBoard's curves")));
}

// With dropout, so that generator states count too.
class ResumeTest : public testing::TestWithParam<std::tuple<int, bool>> {};

TEST_P(ResumeTest, AStoppedRunEndsInTheSameBytes) {
  const auto& [stop_after, packing] = GetParam();
  JobFolder folder("run_resume");
  folder.training()["packing"] = packing;
  folder.training()["gradient_accumulation_steps"] = 2;
  RecordingObserver whole;
  ASSERT_TRUE(Train(folder, "whole", whole).ok());
  RecordingObserver first, second;
  first.stop_after = stop_after;
  auto stopped = Train(folder, "parts", first);
  ASSERT_TRUE(stopped.ok()) << stopped.status();
  EXPECT_EQ(stopped->stopped, StopRequest::kPreempt);
  EXPECT_EQ(stopped->checkpoint_step, stop_after);
  auto finished = Train(folder, "parts", second);
  ASSERT_TRUE(finished.ok()) << finished.status();
  EXPECT_EQ(first.steps.size() + second.steps.size(), whole.steps.size());
  EXPECT_EQ(AdapterBytes(folder, "whole"), AdapterBytes(folder, "parts"));
  for (size_t i = 0; i < second.steps.size(); ++i) {
    EXPECT_EQ(second.steps[i].loss, whole.steps[stop_after + i].loss);
  }
}

INSTANTIATE_TEST_SUITE_P(All, ResumeTest,
                         testing::Combine(testing::Values(1, 3, 4, 7),
                                          testing::Bool()));

TEST(RunTest, AKilledRunGoesBackToItsLastCheckpoint) {
  const JobFolder folder("run_killed");
  RecordingObserver whole;
  ASSERT_TRUE(Train(folder, "whole", whole).ok());
  RecordingObserver first, second;
  first.stop_after = 6;
  first.stop_kind = StopRequest::kCancel;  // no checkpoint at the stop
  auto stopped = Train(folder, "parts", first);
  EXPECT_EQ(stopped->checkpoint_step, 4);
  ASSERT_TRUE(Train(folder, "parts", second).ok());
  EXPECT_EQ(second.steps.front().step, 5);
  EXPECT_EQ(AdapterBytes(folder, "whole"), AdapterBytes(folder, "parts"));
}

TEST(RunTest, AFinishedRunRunsNoStepAgain) {
  const JobFolder folder("run_again");
  RecordingObserver first, second;
  ASSERT_TRUE(Train(folder, "out", first).ok());
  const std::string bytes = AdapterBytes(folder, "out");
  auto again = Train(folder, "out", second);
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE(second.steps.empty());
  EXPECT_EQ(AdapterBytes(folder, "out"), bytes);
}

TEST(RunTest, CheckpointsOfAnotherJobAreRefused) {
  JobFolder folder("run_other");
  RecordingObserver observer;
  ASSERT_TRUE(Train(folder, "out", observer).ok());
  folder.training()["learning_rate"] = 5e-3;
  auto other = Train(folder, "out", observer);
  EXPECT_EQ(other.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(other.status().message()),
              HasSubstr("checkpoints of another job"));
}

TEST(RunTest, Bf16TrainsWithFp32Adapters) {
  JobFolder folder("run_bf16");
  folder.training()["bf16"] = true;
  RecordingObserver observer;
  auto result = Train(folder, "out", observer);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_LT(*result->eval_loss_after, *result->eval_loss_before);
  auto file = *tensorfile::SafetensorsFile::Open(
      folder.path() / "out/adapter/adapter_model.safetensors");
  for (const auto& [name, entry] : file->entries()) {
    EXPECT_EQ(entry.dtype, at::kFloat) << name;
  }
}

}  // namespace
}  // namespace mpsd::train
