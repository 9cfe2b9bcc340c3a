// SPDX-License-Identifier: Apache-2.0
#include "core/data/batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/data/model_folder.h"

namespace mpsd::data {
namespace {

using ::testing::ElementsAre;

TEST(LengthBuckets, AreFewAndEndAtMaxLength) {
  EXPECT_THAT(LengthBuckets(512),
              ElementsAre(32, 48, 64, 96, 128, 192, 256, 384, 512));
  EXPECT_THAT(LengthBuckets(100), ElementsAre(32, 48, 64, 96, 100));
  EXPECT_THAT(LengthBuckets(48), ElementsAre(32, 48));
  EXPECT_THAT(LengthBuckets(32), ElementsAre(32));
  EXPECT_THAT(LengthBuckets(5), ElementsAre(5));
  EXPECT_LE(LengthBuckets(131072).size(), 26u);
}

TEST(MakeBatch, PadsToTheSmallestBucketThatFits) {
  const TokenArrays samples(CountingSamples({3, 33, 2}));
  Batch batch = MakeBatch(samples, {{0}, {2}}, 64, 9, false);
  EXPECT_EQ(batch.rows, 2);
  EXPECT_EQ(batch.length, 32);
  EXPECT_FALSE(batch.packed);
  EXPECT_EQ(batch.input_ids.size(), 64u);
  EXPECT_EQ(batch.input_ids[3], 9);
  EXPECT_EQ(batch.segment_ids[3], -1);
  EXPECT_EQ(batch.position_ids[3], 3);  // padding counts on
  EXPECT_EQ(batch.labels[3], base::kIgnoreIndex);
  EXPECT_EQ(MakeBatch(samples, {{0}, {1}}, 64, 9, false).length, 48);
  EXPECT_EQ(MakeBatch(samples, {{0}, {1}}, 40, 9, false).length, 40);
}

TEST(PaddedLength, IsAMultipleOfEightWhereShapesAreFree) {
  auto padded = [](int64_t length, int64_t max_length) {
    return PaddedLength(length, max_length, Padding::kMultipleOfEight);
  };
  EXPECT_EQ(padded(1, 64), 8);
  EXPECT_EQ(padded(33, 64), 40);
  EXPECT_EQ(padded(40, 64), 40);
  EXPECT_EQ(padded(61, 62), 62);
  EXPECT_EQ(PaddedLength(33, 64, Padding::kLongest), 33);
}

TEST(MakeBatch, LabelsAreNotShiftedAndLeaveOutTheFirstToken) {
  TokenSample sample;
  sample.input_ids = {5, 6, 7, 8};
  sample.in_loss = {1, 0, 1, 1};
  const Batch batch = MakeBatch(TokenArrays({sample}), {{0}}, 4, 0, false);
  EXPECT_THAT(batch.input_ids, ElementsAre(5, 6, 7, 8));
  EXPECT_THAT(batch.labels, ElementsAre(-100, -100, 7, 8));
  EXPECT_THAT(batch.position_ids, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(batch.segment_ids, ElementsAre(0, 0, 0, 0));
  EXPECT_EQ(batch.tokens, 4);
  EXPECT_EQ(batch.label_tokens, 2);
  EXPECT_EQ(batch.label_tokens, sample.label_tokens());
  EXPECT_EQ(batch.loss_weight, 2);
  EXPECT_THAT(batch.samples, ElementsAre(0));
}

TEST(MakeBatch, PacksSegmentsWithPositionsOfTheirOwn) {
  const TokenArrays samples(CountingSamples({3, 2, 4}));
  const Batch batch = MakeBatch(samples, {{2, 0}, {1}}, 8, 1, true);
  EXPECT_TRUE(batch.packed);
  EXPECT_THAT(batch.input_ids,
              ElementsAre(1005, 1006, 1007, 1008, 1000, 1001, 1002, 1, 1003,
                          1004, 1, 1, 1, 1, 1, 1));
  EXPECT_THAT(batch.position_ids,
              ElementsAre(0, 1, 2, 3, 0, 1, 2, 0, 0, 1, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(batch.segment_ids, ElementsAre(0, 0, 0, 0, 1, 1, 1, -1, 0, 0, -1,
                                             -1, -1, -1, -1, -1));
  EXPECT_THAT(batch.labels,
              ElementsAre(-100, 1006, 1007, 1008, -100, 1001, 1002, -100, -100,
                          1004, -100, -100, -100, -100, -100, -100));
  EXPECT_EQ(batch.tokens, 9);
  EXPECT_EQ(batch.label_tokens, 6);
  EXPECT_EQ(batch.loss_weight, 6);
  EXPECT_TRUE(batch.samples.empty());
}

TEST(MakeBatch, CutsSamplesAtMaxLength) {
  const Batch batch =
      MakeBatch(TokenArrays(CountingSamples({9, 2})), {{0}, {1}}, 4, 0, false);
  EXPECT_EQ(batch.length, 4);
  EXPECT_THAT(batch.input_ids,
              ElementsAre(1000, 1001, 1002, 1003, 1009, 1010, 0, 0));
  EXPECT_EQ(batch.tokens, 6);
}

TEST(BatchDeathTest, NoRowIsLongerThanMaxLength) {
  for (const Padding padding :
       {Padding::kBuckets, Padding::kMultipleOfEight, Padding::kLongest}) {
    EXPECT_DEATH(PaddedLength(65, 64, padding), "max_length: 65 <= 64");
  }
}

TEST(BatchDeathTest, TheSamplesOfARowFitIt) {
  const TokenArrays samples(CountingSamples({3, 4}));
  EXPECT_DEATH(MakeBatch(samples, {{0, 1}}, 6, 0, true),
               "left of its row: 4 <= 3");
  EXPECT_DEATH(MakeBatch(samples, {{2}}, 6, 0, false), "row: 2 < 2");
}

}  // namespace
}  // namespace mpsd::data
