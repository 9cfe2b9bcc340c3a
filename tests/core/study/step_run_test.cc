// SPDX-License-Identifier: Apache-2.0
#include "core/study/step_run.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/core/study/study_job.h"
#include "tests/core/train/lm_job.h"

namespace mpsd::study {
namespace {

using testing_support::RecordingObserver;

class StepRunTest : public testing::Test {
 protected:
  std::unique_ptr<StepRun> Open(bool dropout) {
    StepRun::Options options;
    options.device = *backend::ChoiceOf("cpu");
    options.dropout = dropout;
    options.max_eval_samples = max_eval_samples_;
    auto run = StepRun::Open(job_.Spec(), job_.context(), observer_, options);
    EXPECT_TRUE(run.ok()) << run.status();
    return run.ok() ? *std::move(run) : nullptr;
  }
  static std::vector<double> Losses(StepRun& run, int steps) {
    std::vector<double> losses;
    for (int i = 0; i < steps; ++i) losses.push_back(run.Next()->result.loss);
    return losses;
  }

  StudyJob job_{"step_run"};
  RecordingObserver observer_;
  std::optional<int64_t> max_eval_samples_;
};

// The job accumulates, has dropout and a schedule.
TEST_F(StepRunTest, TheStepsAreThoseOfATraining) {
  job_.training()["gradient_accumulation_steps"] = 2;
  job_.training()["warmup_steps"] = 3;
  RecordingObserver training;
  ASSERT_TRUE(train::Train(job_, "trained", training).ok());
  const int threads = at::get_num_threads();
  for (int again = 0; again < 2; ++again) {
    const auto run = Open(/*dropout=*/true);
    EXPECT_TRUE(run->has_dropout());
    EXPECT_EQ(run->total_steps(), 8);
    for (const report::Progress& step : training.steps) {
      const auto own = run->Next();
      ASSERT_TRUE(own.ok()) << own.status();
      EXPECT_EQ(own->result.loss, step.loss) << step.step;
      EXPECT_EQ(own->result.grad_norm, step.grad_norm);
      EXPECT_EQ(own->learning_rate, step.learning_rate);
      EXPECT_EQ(own->tokens, step.tokens);
      EXPECT_EQ(own->label_tokens, step.label_tokens);
    }
    EXPECT_EQ(**run->Evaluate("loss"), training.evals.back().eval_loss);
  }
  EXPECT_EQ(at::get_num_threads(), threads);
}

TEST_F(StepRunTest, DropoutCanBeLeftOut) {
  const auto with = Open(true), without = Open(false);
  EXPECT_FALSE(without->has_dropout());
  EXPECT_NE(Losses(*with, 3), Losses(*without, 3));
  job_.job()["lora"]["lora_dropout"] = 0;
  const auto never = Open(true);
  const auto left_out = Open(false);
  EXPECT_EQ(Losses(*never, 3), Losses(*left_out, 3));
}

TEST_F(StepRunTest, EvaluatesWhatThereIs) {
  const auto run = Open(false);
  EXPECT_EQ(run->metric(), "loss");
  EXPECT_TRUE(run->Evaluate("perplexity")->has_value());
  EXPECT_TRUE(run->Evaluate("")->has_value());
  EXPECT_FALSE(run->Evaluate("f1")->has_value());
  job_.job()["dataset"].erase("eval");
  job_.training().erase("eval_steps");
  const auto blind = Open(false);
  EXPECT_EQ(blind->metric(), "");
  EXPECT_FALSE(blind->Evaluate("loss")->has_value());
}

// A bound of the study's own is no field that the user would have set in vain.
TEST_F(StepRunTest, ItsOwnBoundIsNoIdleField) {
  max_eval_samples_ = 8;
  for (const bool evaluates : {true, false}) {
    if (!evaluates) {
      job_.job()["dataset"].erase("eval");
      job_.training().erase("eval_steps");
    }
    ASSERT_NE(Open(false), nullptr);
    for (const std::string& warning : observer_.warnings()) {
      EXPECT_EQ(warning.find("max_eval_samples"), std::string::npos) << warning;
    }
  }
}

TEST_F(StepRunTest, StopsWhereItIsAskedTo) {
  const auto run = Open(false);
  observer_.request = train::StopRequest::kCancel;
  EXPECT_EQ(run->Next().status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(run->Evaluate("loss").status().code(),
            absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace mpsd::study
