// SPDX-License-Identifier: Apache-2.0
#include "core/train/inputs.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace mpsd::train {
namespace {

constexpr int64_t kNo = data::kIgnoreIndex;

data::Batch TwoRows() {
  data::Batch batch;
  batch.rows = 2;
  batch.length = 4;
  batch.input_ids = {5, 6, 7, 8, 9, 10, 0, 0};
  batch.labels = {kNo, 6, kNo, 8, kNo, 10, kNo, kNo};
  batch.position_ids = {0, 1, 2, 3, 0, 1, 0, 0};
  batch.segment_ids = {0, 0, 0, 0, 0, 0, -1, -1};
  batch.label_tokens = 3;
  return batch;
}

TEST(InputsTest, EachLabelIsPredictedByTheTokenBefore) {
  const ModelInputs inputs = MakeInputs(TwoRows(), at::kCPU);
  EXPECT_EQ(inputs.labels.count, 3);
  EXPECT_TRUE(at::equal(inputs.labels.rows.narrow(0, 0, 3),
                        at::tensor({int64_t{0}, int64_t{2}, int64_t{4}})));
  EXPECT_TRUE(at::equal(inputs.labels.targets.narrow(0, 0, 3),
                        at::tensor({int64_t{6}, int64_t{8}, int64_t{10}})));
}

TEST(InputsTest, TheSelectionIsPaddedToFewSizes) {
  auto size_for = [](int64_t labels) {
    data::Batch batch;
    batch.rows = 1;
    batch.length = labels + 1;
    batch.input_ids.assign(batch.length, 1);
    batch.labels.assign(batch.length, 1);
    batch.labels[0] = kNo;
    batch.position_ids.assign(batch.length, 0);
    batch.segment_ids.assign(batch.length, 0);
    const ModelInputs inputs = MakeInputs(batch, at::kCPU);
    EXPECT_EQ(inputs.labels.count, labels);
    EXPECT_EQ((inputs.labels.targets == model::LabelSelection::kNoTarget)
                  .sum()
                  .item<int64_t>(),
              inputs.labels.rows.size(0) - labels);
    return inputs.labels.rows.size(0);
  };
  EXPECT_EQ(size_for(1), 16);
  EXPECT_EQ(size_for(16), 16);
  EXPECT_EQ(size_for(17), 32);
  EXPECT_EQ(size_for(33), 64);
  EXPECT_EQ(size_for(65), 128);
}

TEST(InputsTest, SegmentsAreHandedOverForPackedRowsOnly) {
  data::Batch batch = TwoRows();
  EXPECT_FALSE(MakeInputs(batch, at::kCPU).decoder.segment_ids.defined());
  batch.packed = true;
  const ModelInputs inputs = MakeInputs(batch, at::kCPU);
  EXPECT_EQ(inputs.decoder.segment_ids[1][2].item<int64_t>(), -1);
  EXPECT_EQ(inputs.decoder.position_ids[0][3].item<int64_t>(), 3);
}

}  // namespace
}  // namespace mpsd::train
