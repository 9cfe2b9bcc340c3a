// SPDX-License-Identifier: Apache-2.0
#include "core/train/split_and_limit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/core/train/lm_parts.h"

namespace mpsd::train {
namespace {

std::unique_ptr<data::Source> Some(int64_t count) {
  return std::make_unique<Batches>(
      std::vector<data::Batch>(count, MakeBatch({4}, 4)));
}

spec::TrainSpec Splitting(double share) {
  spec::TrainSpec spec;
  spec.dataset.validation_split = share;
  return spec;
}

TEST(SplitAndLimitTest, TheSplitComesOffTheTrainingData) {
  TaskData data;
  data.train = Some(10);
  ASSERT_TRUE(SplitAndLimit(Splitting(0.2), data).ok());
  EXPECT_EQ(data.train->size(), 8);
  ASSERT_NE(data.eval, nullptr);
  EXPECT_EQ(data.eval->size(), 2);
}

TEST(SplitAndLimitTest, LimitsComeAfterTheSplit) {
  spec::TrainSpec spec = Splitting(0.5);
  spec.dataset.max_train_samples = 3;
  spec.dataset.max_eval_samples = 100;
  spec.dataset.max_predict_samples = 1;
  TaskData data;
  data.train = Some(10);
  data.predict = Some(4);
  ASSERT_TRUE(SplitAndLimit(spec, data).ok());
  EXPECT_EQ(data.train->size(), 3);
  EXPECT_EQ(data.eval->size(), 5);
  EXPECT_EQ(data.predict->size(), 1);
}

TEST(SplitAndLimitTest, WithoutAnyNothingChanges) {
  TaskData data;
  data.train = Some(3);
  const data::Source* train = data.train.get();
  ASSERT_TRUE(SplitAndLimit(spec::TrainSpec(), data).ok());
  EXPECT_EQ(data.train.get(), train);
  EXPECT_EQ(data.eval, nullptr);
}

TEST(SplitAndLimitTest, OneSampleCannotBeSplit) {
  TaskData data;
  data.train = Some(1);
  const absl::Status s = SplitAndLimit(Splitting(0.5), data);
  EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(s.message()),
              testing::HasSubstr("dataset.validation_split"));
}

}  // namespace
}  // namespace mpsd::train
