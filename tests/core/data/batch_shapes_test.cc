// SPDX-License-Identifier: Apache-2.0
#include "core/data/batch_shapes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace mpsd::data {
namespace {

// Samples of these lengths, of which a batch keeps the number of rows.
class Lengths : public Source {
 public:
  explicit Lengths(std::vector<int64_t> lengths)
      : lengths_(std::move(lengths)) {}
  int64_t size() const override { return std::ssize(lengths_); }
  int64_t length(int64_t index) const override { return lengths_[index]; }
  absl::StatusOr<Batch> Collate(const std::vector<std::vector<int64_t>>& rows,
                                const Collation&) const override {
    Batch batch;
    batch.rows = std::ssize(rows);
    return batch;
  }
  std::string hash() const override { return ""; }
  const DatasetStats& stats() const override { return stats_; }

 private:
  const std::vector<int64_t> lengths_;
  DatasetStats stats_;
};

class BatchShapesTest : public testing::Test {
 protected:
  BatchShapesTest() {
    spec_.training.per_device_train_batch_size = 4;
    spec_.training.gradient_accumulation_steps = 3;
    spec_.training.per_device_eval_batch_size = 8;
    spec_.training.max_length = 100;
  }
  BatchShapes On(backend::Choice device) const {
    return {spec_, config_, backend::TraitsOf(device),
            device == backend::Choice::kMps ? "mps" : "cpu"};
  }

  spec::TrainSpec spec_;
  spec::ModelConfig config_;
};

TEST_F(BatchShapesTest, AStepIsSplitAndKeepsItsRows) {
  const BatchShapes shapes = On(backend::Choice::kCpu);
  EXPECT_EQ(shapes.step_rows(), 12);
  const LoaderOptions options = shapes.TrainOptions(6);
  EXPECT_EQ(options.batch_size, 6);
  EXPECT_EQ(options.gradient_accumulation_steps, 2);
  EXPECT_EQ(options.padding, Padding::kLongest);
  EXPECT_FALSE(options.padding_free);
  spec_.training.auto_find_batch_size = true;
  EXPECT_TRUE(On(backend::Choice::kMps).TrainOptions(1).padding_free);
  EXPECT_EQ(On(backend::Choice::kMps).TrainOptions(1).padding,
            Padding::kBuckets);
}

TEST_F(BatchShapesTest, ARunHasItsStepsOrItsEpochs) {
  spec_.training.num_train_epochs = 2.5;
  EXPECT_EQ(On(backend::Choice::kCpu).TotalSteps(5), 13);
  spec_.training.max_steps = 7;
  EXPECT_EQ(On(backend::Choice::kCpu).TotalSteps(5), 7);
}

TEST_F(BatchShapesTest, TheLongestRowIsCutAndPadded) {
  const Lengths train({7, 33, 5}), longer({7, 200});
  EXPECT_EQ(On(backend::Choice::kCpu).LongestSample(train), 33);
  EXPECT_EQ(On(backend::Choice::kCpu).LongestSample(longer), 100);
  EXPECT_EQ(On(backend::Choice::kCpu).LongestRow(train), 33);
  EXPECT_EQ(On(backend::Choice::kMps).LongestRow(train),
            PaddedLength(33, 100, Padding::kBuckets));
  spec_.training.packing = true;
  EXPECT_EQ(On(backend::Choice::kCpu).LongestRow(train), 100);
}

TEST_F(BatchShapesTest, ALimitSaysHowManyRowsAreRight) {
  spec_.training.max_length = 2'048;
  spec_.training.packing = true;
  spec_.training.per_device_train_batch_size = 15;
  const Lengths train({2'048});
  EXPECT_TRUE(On(backend::Choice::kMps).CheckDeviceLimits(train, {}).ok());
  spec_.training.per_device_train_batch_size = 16;
  EXPECT_TRUE(On(backend::Choice::kCpu).CheckDeviceLimits(train, {}).ok());
  EXPECT_EQ(On(backend::Choice::kMps).CheckDeviceLimits(train, {}).message(),
            "training.per_device_train_batch_size: 16 rows of up to 2048 "
            "tokens are 32768; the device mps computes wrong gradients above "
            "32766: take 15 rows at most and raise gradient_accumulation_steps "
            "instead, or set auto_find_batch_size");
  spec_.training.auto_find_batch_size = true;
  EXPECT_TRUE(On(backend::Choice::kMps).CheckDeviceLimits(train, {}).ok());
}

// Fewer rows would not help.
TEST_F(BatchShapesTest, ARowThatIsTooLongNamesMaxLength) {
  spec_.training.max_length = 32'768;
  spec_.training.per_device_train_batch_size = 1;
  const Lengths short_rows({64}), long_rows({32'768});
  const BatchShapes shapes = On(backend::Choice::kMps);
  EXPECT_TRUE(
      shapes.CheckDeviceLimits(short_rows, {&short_rows, nullptr}).ok());
  const std::string message =
      "training.max_length: the longest row has 32768 tokens with its padding; "
      "the device mps computes wrong gradients above 32766 tokens at a time: "
      "set max_length to 32766 at most, which cuts longer rows";
  EXPECT_EQ(shapes.CheckDeviceLimits(long_rows, {}).message(), message);
  EXPECT_EQ(
      shapes.CheckDeviceLimits(short_rows, {nullptr, &long_rows}).message(),
      message);
}

// Where running out of memory is silent, an evaluation takes what a
// micro-batch of training took.
TEST_F(BatchShapesTest, AnEvaluationIsAsLargeAsItsDeviceBears) {
  const Lengths train({32, 32}), eval(std::vector<int64_t>(16, 32));
  EXPECT_EQ(On(backend::Choice::kCpu).EvalBatches(eval, train, 2).count(), 2);
  const EvalLoader few = On(backend::Choice::kMps).EvalBatches(eval, train, 2);
  EXPECT_EQ(few.count(), 8);
  EXPECT_EQ(few.Load(0)->rows, 2);
}

TEST_F(BatchShapesTest, AnImageHasTheModelsTokens) {
  spec_.task = spec::Task::kImageCls;
  spec_.training.packing = true;  // of no meaning for images
  config_.vision.image_size = 32;
  config_.vision.patch_size = 8;
  const Lengths images(std::vector<int64_t>(12, 1));
  const BatchShapes shapes = On(backend::Choice::kMps);
  EXPECT_EQ(shapes.LongestRow(images), 17);
  EXPECT_EQ(shapes.EvalBatches(images, images, 3).count(), 4);
}

}  // namespace
}  // namespace mpsd::data
