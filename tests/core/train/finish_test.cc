// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "core/ckpt/checkpoint.h"
#include "tests/core/train/class_job.h"

namespace mpsd::train {
namespace {

using testing_support::RecordingObserver;

// The model, the metrics and the confusion matrix are those of the best
// evaluation, whatever came after it.
TEST(FinishTest, TheBestModelIsWhatIsLeft) {
  TextJob job("finish_best");
  job.job["training"]["eval_steps"] = 2;
  job.job["training"]["max_steps"] = 30;
  job.job["training"]["learning_rate"] = 3e-2;  // too much
  job.job["training"]["metric_for_best_model"] = "eval_accuracy";
  job.job["training"]["load_best_model_at_end"] = true;
  RecordingObserver observer;
  auto result = job.Train("out", observer);
  ASSERT_TRUE(result.ok()) << result.status();
  auto accuracy = [](const report::Evaluated& evaluated) {
    return evaluated.metrics[0].second;
  };
  const auto best = std::max_element(
      observer.evals.begin() + 1, observer.evals.end(),
      [&](const auto& a, const auto& b) { return accuracy(a) < accuracy(b); });
  for (const auto& evaluated : observer.evals) {
    // The last one that is marked.
    if (evaluated.step >= best->step) {
      EXPECT_EQ(evaluated.best, evaluated.step == best->step);
    }
  }
  EXPECT_FALSE(observer.evals[0].best);  // before training
  EXPECT_TRUE(observer.evals[1].best);
  EXPECT_EQ(result->metrics[0].second, accuracy(*best));
  EXPECT_EQ(*result->eval_loss_after, best->eval_loss);
  const json matrix = json::parse(result->confusion_matrix)["matrix"];
  const double right = matrix[0][0].get<double>() + matrix[1][1].get<double>();
  EXPECT_DOUBLE_EQ(right / 16, accuracy(*best));
  const auto step = job.Json("out/run.json")["result"]["best"]["step"];
  EXPECT_EQ(step, best->step);
  EXPECT_EQ(job.Bytes("out/model/model.safetensors"),
            job.Bytes("out/checkpoints/step-" + std::to_string(best->step) +
                      "/model.safetensors"));
}

// A best checkpoint that is gone or spoilt costs the best, not the run.
TEST(FinishTest, WithoutTheBestTheLastWeightsAreTheResult) {
  for (const bool spoilt : {false, true}) {
    TextJob job("finish_no_best");
    job.job["training"]["eval_steps"] = 2;
    job.job["training"]["save_steps"] = 2;
    job.job["training"]["max_steps"] = 30;
    job.job["training"]["learning_rate"] = 3e-2;  // too much
    job.job["training"]["load_best_model_at_end"] = true;
    // The last step's checkpoint is there when a finished run runs again.
    ASSERT_TRUE(job.Train("out").ok());
    const auto before = job.Json("out/run.json")["result"];
    const int64_t best = before["best"]["step"];
    ASSERT_LT(best, 30);
    EXPECT_EQ(before["result_step"], best);
    const auto folder = ckpt::CheckpointPath(job.path() / "out", best);
    if (spoilt) {
      std::filesystem::resize_file(folder / "model.safetensors", 3);
    } else {
      std::filesystem::remove_all(folder);
    }
    RecordingObserver observer;
    auto result = job.Train("out", observer);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_THAT(
        observer.warnings(),
        testing::ElementsAre(testing::AllOf(
            testing::HasSubstr("best checkpoint, step " + std::to_string(best)),
            testing::HasSubstr("that of the last step, 30"))));
    EXPECT_EQ(job.Json("out/run.json")["result"]["result_step"], 30);
    EXPECT_EQ(job.Bytes("out/model/model.safetensors"),
              job.Bytes("out/checkpoints/step-30/model.safetensors"));
    EXPECT_NE(result->confusion_matrix, "");
  }
}

TEST(FinishTest, AStopWhilePredictingIsAStop) {
  TextJob job("finish_stop");
  job.job["dataset"]["predict"] = "eval.csv";
  job.job["training"]["max_steps"] = 2;
  RecordingObserver observer;
  observer.stop_at_stage = "predicting";
  auto result = job.Train("out", observer);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->stopped, StopRequest::kPreempt);
  auto rest = job.Train("out");
  ASSERT_TRUE(rest.ok()) << rest.status();
  EXPECT_EQ(rest->stopped, StopRequest::kNone);
  EXPECT_FALSE(rest->confusion_matrix.empty());
}

}  // namespace
}  // namespace mpsd::train
