// SPDX-License-Identifier: Apache-2.0
#include "core/data/order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace mpsd::data {
namespace {

// The published test vector of SplitMix64 with seed 1234567.
TEST(Random, IsSplitMix64) {
  Random random(1234567);
  EXPECT_EQ(random.Next(), 6457827717110365317u);
  EXPECT_EQ(random.Next(), 3203168211198807973u);
  EXPECT_EQ(random.Next(), 9817491932198370423u);
}

TEST(Random, BelowStaysBelowAndReachesAll) {
  Random random(1);
  std::vector<int> counts(5);
  for (int i = 0; i < 5000; ++i) ++counts.at(random.Below(5));
  EXPECT_THAT(counts, ::testing::Each(::testing::AllOf(::testing::Gt(900),
                                                       ::testing::Lt(1100))));
  EXPECT_EQ(random.Below(1), 0u);
}

// Written down once: a run must find its order again in every later version.
TEST(ShuffledOrder, NeverChanges) {
  EXPECT_THAT(ShuffledOrder(8, 42, 0),
              ::testing::ElementsAre(3, 6, 0, 7, 1, 2, 5, 4));
  EXPECT_THAT(ShuffledOrder(8, 42, 1),
              ::testing::ElementsAre(1, 0, 5, 3, 4, 6, 7, 2));
}

TEST(ShuffledOrder, IsAPermutationOfItsOwnPerSeedAndEpoch) {
  const std::vector<int64_t> order = ShuffledOrder(1000, 42, 3);
  std::vector<int64_t> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(sorted, PlainOrder(1000));
  EXPECT_EQ(ShuffledOrder(1000, 42, 3), order);
  EXPECT_NE(ShuffledOrder(1000, 42, 4), order);
  EXPECT_NE(ShuffledOrder(1000, 43, 3), order);
  EXPECT_NE(ShuffledOrder(1000, 43, 2), order);
  EXPECT_THAT(ShuffledOrder(1, 1, 1), ::testing::ElementsAre(0));
  EXPECT_TRUE(ShuffledOrder(0, 1, 1).empty());
}

// Of 100 samples in steps of 4, pieces are six batches long.
TEST(GroupByLengthTest, SortsWithinPiecesAndPutsTheLongestFirst) {
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < 100; ++i) lengths.push_back(1 + (i * 37) % 90);
  lengths[77] = 1000;
  const std::vector<int64_t> random = ShuffledOrder(100, 1, 0);
  const std::vector<int64_t> order = GroupByLength(random, lengths, 4);
  EXPECT_EQ(order[0], 77);
  std::vector<int64_t> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(sorted, PlainOrder(100));
  int64_t rises = 0;
  for (size_t i = 1; i < order.size(); ++i) {
    rises += lengths[order[i]] > lengths[order[i - 1]] ? 1 : 0;
  }
  // One at each seam, and where what stood first was put.
  EXPECT_LE(rises, 5);
  EXPECT_NE(order, random);
}

TEST(GroupByLengthTest, FewSamplesAreOnePieceABatch) {
  EXPECT_EQ(GroupByLength({0, 1, 2, 3}, {1, 4, 2, 3}, 2),
            (std::vector<int64_t>{1, 0, 3, 2}));
}

}  // namespace
}  // namespace mpsd::data
