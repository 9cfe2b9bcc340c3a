// SPDX-License-Identifier: Apache-2.0
// What a run does from step to step, and how it stops.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/clock.h"
#include "core/ckpt/checkpoint.h"
#include "tests/core/train/lm_job.h"

namespace mpsd::train {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing_support::JobFolder;
using testing_support::RecordingObserver;

// A stop is heard between any two micro-batches, and the step it cuts leaves no
// trace: checkpoints, random numbers and data are those of the step before.
class StopWithinAStepTest : public testing::TestWithParam<const char*> {
 protected:
  // Three micro-batches a step, dropout, no evaluation.
  static void Shape(JobFolder& folder, const std::string& kind) {
    folder.training()["per_device_train_batch_size"] = 1;
    folder.training()["gradient_accumulation_steps"] = 3;
    folder.training()["max_steps"] = 4;
    folder.training()["save_steps"] = 2;
    folder.training()["eval_steps"] = 100;
    folder.WriteRows("train.jsonl", 20);
    if (kind == "packing") folder.training()["packing"] = true;
    if (kind == "autograd") folder.job()["gradients"] = "autograd";
    if (kind == "full") {
      folder.job().erase("lora");
      folder.job()["fine_tune_type"] = "full";
    }
  }
  static std::string Bytes(const JobFolder& folder, const std::string& out) {
    const fs::path model = folder.path() / out / "model/model.safetensors";
    return fs::exists(model) ? *base::ReadFile(model)
                             : AdapterBytes(folder, out);
  }
};

TEST_P(StopWithinAStepTest, EndsInTheSameBytes) {
  JobFolder folder(std::string("trainer_within_") + GetParam());
  Shape(folder, GetParam());
  RecordingObserver whole;
  ASSERT_TRUE(Train(folder, "whole", whole).ok());
  // Asked before each step and between its micro-batches.
  ASSERT_GE(whole.asked, 9);
  int64_t within = 0;
  for (int64_t asked = 4; asked <= whole.asked; ++asked) {
    SCOPED_TRACE(asked);
    const std::string out = absl::StrCat("parts", asked);
    RecordingObserver first, second;
    first.stop_when_asked = asked;
    auto stopped = Train(folder, out, first);
    ASSERT_TRUE(stopped.ok()) << stopped.status();
    if (stopped->stopped == StopRequest::kNone) continue;  // an evaluation's
    EXPECT_LE(first.asked, asked + 1) << "and once for the reason";
    EXPECT_EQ(stopped->checkpoint_step, stopped->steps);
    within += stopped->steps > 0 && stopped->steps < 4;
    ASSERT_TRUE(Train(folder, out, second).ok());
    EXPECT_EQ(first.steps.size() + second.steps.size(), whole.steps.size());
    EXPECT_EQ(Bytes(folder, "whole"), Bytes(folder, out));
    if (second.steps.empty()) continue;  // stopped in the last evaluation
    EXPECT_EQ(second.steps.back().loss, whole.steps.back().loss);
  }
  EXPECT_GE(within, 5);
}

INSTANTIATE_TEST_SUITE_P(Kinds, StopWithinAStepTest,
                         testing::Values("rows", "packing", "autograd", "full"),
                         [](const auto& info) { return info.param; });

TEST(LoopTest, ACancelWithinAStepEndsAtOnce) {
  JobFolder folder("loop_cancel_within");
  folder.training()["gradient_accumulation_steps"] = 5;
  folder.training().erase("eval_steps");
  folder.job()["dataset"].erase("eval");
  RecordingObserver observer;
  observer.stop_kind = StopRequest::kCancel;
  observer.stop_when_asked = 2;  // behind the first micro-batch
  auto stopped = Train(folder, "out", observer);
  ASSERT_TRUE(stopped.ok()) << stopped.status();
  EXPECT_EQ(stopped->stopped, StopRequest::kCancel);
  EXPECT_EQ(stopped->checkpoint_step, 0);
  EXPECT_TRUE(observer.steps.empty());
  EXPECT_TRUE(ckpt::ListCheckpoints(folder.path() / "out").empty());
}

// A pause within a step is no part of its time: speed and ETA stay true.
TEST(LoopTest, AHeldStepCountsNoWaiting) {
  struct Holding : RecordingObserver {
    StopRequest stop_request() override {
      if (++asked == 1) begin = Now();
      if (asked == 2) {
        const absl::Duration before = Now();
        absl::SleepFor(absl::Seconds(2));
        slept = Now() - before;
      }
      return StopRequest::kNone;
    }
    void OnStep(const report::Progress& step) override {
      RecordingObserver::OnStep(step);
      whole = Now() - begin;
    }
    static absl::Duration Now() { return base::Clock::Real().Monotonic(); }
    absl::Duration begin, whole, slept;
  };
  JobFolder folder("loop_held");
  folder.training()["gradient_accumulation_steps"] = 5;
  folder.training()["max_steps"] = 1;
  folder.training().erase("eval_steps");
  folder.job()["dataset"].erase("eval");
  Holding observer;
  ASSERT_TRUE(Train(folder, "out", observer).ok());
  EXPECT_GE(observer.asked, 5);
  // However slow the machine is: the first question comes before the step.
  EXPECT_LE(observer.steps.at(0).seconds,
            absl::ToDoubleSeconds(observer.whole - observer.slept));
}

TEST(LoopTest, AnEvaluationBeforeTheFirstCheckpointHasOneLine) {
  JobFolder folder("loop_eval_once");
  folder.training()["save_steps"] = 0;
  RecordingObserver first, second;
  first.stop_after = 2;
  first.stop_kind = StopRequest::kCancel;  // as good as killed
  ASSERT_TRUE(Train(folder, "out", first).ok());
  ASSERT_TRUE(Train(folder, "out", second).ok());
  std::vector<int64_t> steps;
  std::ifstream evals(folder.path() / "out" / "eval.jsonl");
  for (std::string line; std::getline(evals, line);) {
    steps.push_back(nlohmann::json::parse(line)["step"]);
  }
  EXPECT_THAT(steps, ElementsAre(0, 4, 8));
}

TEST(LoopTest, AStopWithinAnEvaluationRepeatsTheEvaluation) {
  const JobFolder folder("loop_eval_stop");
  RecordingObserver first, second;
  first.stop_at_stage = "evaluating";
  auto stopped = Train(folder, "out", first);
  ASSERT_TRUE(stopped.ok());
  EXPECT_EQ(stopped->stopped, StopRequest::kPreempt);
  EXPECT_TRUE(first.evals.empty());
  ASSERT_TRUE(Train(folder, "out", second).ok());
  EXPECT_EQ(second.evals.front().step, 0);
}

// What the run reads is not hashed by then: no checkpoint asked for it.
TEST(LoopTest, AStopWithinTheFirstStepsEvaluationKeepsTheStep) {
  JobFolder folder("loop_first_eval_stop");
  folder.training()["eval_steps"] = 1;
  RecordingObserver first, second;
  first.stop_after = 1;
  auto stopped = Train(folder, "out", first);
  ASSERT_TRUE(stopped.ok()) << stopped.status();
  EXPECT_EQ(stopped->checkpoint_step, 1);
  ASSERT_TRUE(Train(folder, "out", second).ok());
  EXPECT_EQ(second.steps.front().step, 2);
  EXPECT_EQ(second.evals.front().step, 1);
  EXPECT_TRUE(second.warnings().empty());
}

TEST(LoopTest, EarlyStoppingEndsARunThatDoesNotImprove) {
  JobFolder folder("loop_early");
  folder.training()["eval_steps"] = 1;
  folder.training()["save_steps"] = 1;
  folder.training()["max_steps"] = 30;
  folder.training()["learning_rate"] = 1.0;  // makes it worse
  folder.training()["max_grad_norm"] = 0;
  folder.training()["load_best_model_at_end"] = true;
  folder.training()["early_stopping_patience"] = 2;
  folder.training()["save_total_limit"] = 2;
  RecordingObserver observer;
  auto result = Train(folder, "out", observer);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_LT(result->steps, 30);
  // The adapter is the best evaluation's, not the last step's.
  auto best = std::min_element(
      observer.evals.begin() + 1, observer.evals.end(),
      [](const auto& a, const auto& b) { return a.eval_loss < b.eval_loss; });
  EXPECT_EQ(*result->eval_loss_after, best->eval_loss);
  EXPECT_EQ(
      AdapterBytes(folder, "out"),
      *base::ReadFile(ckpt::CheckpointPath(folder.path() / "out", best->step) /
                      "adapter_model.safetensors"));
  EXPECT_LE(ckpt::ListCheckpoints(folder.path() / "out").size(), 2u);
}

}  // namespace
}  // namespace mpsd::train
