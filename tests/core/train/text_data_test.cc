// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "core/train/class_data.h"
#include "tests/core/train/class_job.h"

namespace mpsd::train {
namespace {

using testing::HasSubstr;
using testing_support::RecordingObserver;

struct Case {
  const char* name;
  std::function<void(TextJob&)> spoil;
  const char* message;
};

class BadTextJobTest : public testing::TestWithParam<Case> {};

// Before a step is done, and by name.
TEST_P(BadTextJobTest, IsRefused) {
  TextJob job(std::string("text_data_") + GetParam().name);
  GetParam().spoil(job);
  RecordingObserver observer;
  const absl::Status status = job.Train("out", observer).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().message));
  EXPECT_TRUE(observer.steps.empty());
}

INSTANTIATE_TEST_SUITE_P(
    All, BadTextJobTest,
    testing::Values(
        Case{"label",
             [](TextJob& j) { j.Write("eval.csv", "text,label\nx,maybe\n"); },
             "eval.csv:2: "},
        Case{"column",
             [](TextJob& j) { j.job["dataset"]["text_columns"] = {"txt"}; },
             "txt"},
        Case{"metric",
             [](TextJob& j) {
               j.job["training"]["metric_for_best_model"] = "pearson";
             },
             "there are loss, accuracy, f1"},
        Case{"weights",
             [](TextJob& j) {
               j.job["classification"] = {{"class_weights", {1, 2, 3}}};
             },
             "class_weights"},
        Case{"task",
             [](TextJob& j) {
               j.job["task"] = "CAUSAL_LM";
               j.job["dataset"] = {{"train", "train.csv"}};
               j.job["training"].erase("eval_steps");
             },
             "a model of type \"bert\" is for SEQ_CLS"},
        Case{"split",
             [](TextJob& j) {
               j.Write("one.csv", "text,label\nx,neg\n");
               j.job["dataset"] = {{"train", "one.csv"},
                                   {"validation_split", 0.5}};
             },
             ""}),
    [](const auto& info) { return info.param.name; });

TEST(TextDataTest, TextsAreCutAtTheModelsPositions) {
  TextJob job("text_data_long");
  job.Write("train.csv", absl::StrCat("text,label\n", std::string(500, 'a'),
                                      ",neg\nshort,pos\n"));
  job.job["training"]["max_steps"] = 1;
  RecordingObserver observer;
  auto result = job.Train("out", observer);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(observer.stages,
              testing::Contains(HasSubstr("1 rows cut to 64 tokens")));
}

TEST(TextDataTest, SamplesCanBeLimited) {
  TextJob job("text_data_limit");
  job.job["dataset"]["max_train_samples"] = 8;
  job.job["dataset"]["max_eval_samples"] = 4;
  job.job["training"]["max_steps"] = 1;
  ASSERT_TRUE(job.Train("out").ok());
  EXPECT_EQ(job.Json("out/run.json")["train"]["rows"], 8);
  EXPECT_EQ(job.Json("out/run.json")["eval"]["rows"], 4);
}

TEST(TextDataTest, AWarningIsToldAndKept) {
  TextJob job("text_data_warning");
  job.Write("train.csv", "text,label\nx,pos\ny,pos\n");
  job.job["dataset"] = {{"train", "train.csv"}};
  job.job["training"]["max_steps"] = 1;
  job.job["training"].erase("eval_steps");
  RecordingObserver observer;
  const auto result = job.Train("out", observer);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(observer.warnings(),
              testing::Contains(HasSubstr("every row has the label")));
  EXPECT_THAT(observer.stages,
              testing::Not(testing::Contains(HasSubstr("every row"))));
  EXPECT_EQ(job.Json("out/run.json")["warnings"], json(observer.warnings()));
}

TEST(TextDataTest, PredictionsNeedNoLabels) {
  TextJob job("text_data_predict");
  job.Write("predict.csv", "text\nrow number 3 is fine\n");
  job.job["dataset"]["predict"] = "predict.csv";
  auto result = job.Train("out");
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(job.Bytes("out/predictions.tsv"), "index\tprediction\n0\tpos\n");
}

}  // namespace
}  // namespace mpsd::train
