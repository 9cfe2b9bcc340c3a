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
  auto accuracy = [](const EvalReport& r) { return r.metrics[0].second; };
  const auto best = std::max_element(
      observer.evals.begin() + 1, observer.evals.end(),
      [&](const auto& a, const auto& b) { return accuracy(a) < accuracy(b); });
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
