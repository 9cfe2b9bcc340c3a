// SPDX-License-Identifier: Apache-2.0
#include "core/data/split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/data/order.h"
#include "tests/core/data/model_folder.h"

namespace mpsd::data {
namespace {

using ::testing::ElementsAre;

// Written down once: a run must find its split again in every later version.
TEST(SplitForValidation, NeverChanges) {
  const auto split = SplitForValidation(8, 0.25, 42);
  ASSERT_TRUE(split.ok());
  EXPECT_THAT(split->validation, ElementsAre(3, 6));
  EXPECT_THAT(split->train, ElementsAre(0, 1, 2, 4, 5, 7));
}

TEST(SplitForValidation, EverySampleIsOnOneSide) {
  const auto split = SplitForValidation(1001, 0.1, 7);
  EXPECT_EQ(split->validation.size(), 100u);
  EXPECT_TRUE(std::is_sorted(split->train.begin(), split->train.end()));
  std::vector<int64_t> all = split->train;
  all.insert(all.end(), split->validation.begin(), split->validation.end());
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, PlainOrder(1001));
  EXPECT_NE(SplitForValidation(1001, 0.1, 8)->validation, split->validation);
}

TEST(SplitForValidation, NeitherSideIsEmpty) {
  EXPECT_EQ(SplitForValidation(3, 0.001, 1)->validation.size(), 1u);
  EXPECT_EQ(SplitForValidation(3, 0.999, 1)->train.size(), 1u);
  EXPECT_EQ(SplitForValidation(1, 0.5, 1).status().message(),
            "dataset.validation_split: the training data has 1 row; a split "
            "needs two at least: name files in dataset.eval instead");
}

TEST(Subset, IsAViewWithPlacesOfItsOwn) {
  const auto base =
      std::make_shared<TokenDataset>(CountingTokenDataset({2, 3, 4, 5}, 8));
  const Subset subset(base, {3, 1});
  EXPECT_EQ(subset.size(), 2);
  EXPECT_EQ(subset.length(0), 5);
  EXPECT_EQ(subset.base_index(1), 1);
  EXPECT_EQ(subset.stats().rows, 2);
  const auto batch = subset.Collate({{1}, {0}}, {});
  ASSERT_TRUE(batch.ok());
  EXPECT_THAT(batch->samples, ElementsAre(1, 0));
  EXPECT_EQ(batch->input_ids[0], 1002);
  EXPECT_EQ(batch->input_ids[batch->length], 1009);
  EXPECT_EQ(batch->tokens, 8);
}

// Samples of 2, 3 and 4 tokens, of which 1, 0 and 3 are labels: the mark of a
// sample's first token is none.
TEST(Subset, CountsItsOwnLabels) {
  const std::vector<TokenSample> samples = {
      {{1, 2}, {0, 1}}, {{3, 4, 5}, {1, 0, 0}}, {{6, 7, 8, 9}, {1, 1, 1, 1}}};
  DatasetStats stats;
  stats.rows = 3;
  stats.tokens = 9;
  for (const TokenSample& sample : samples) {
    stats.label_tokens += sample.label_tokens();
  }
  ASSERT_EQ(stats.label_tokens, 4);
  const auto base = std::make_shared<TokenDataset>(
      TokenArrays(samples), TokenizeOptions{.max_length = 8}, stats, "");
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(base->label_tokens(i), samples[i].label_tokens()) << i;
  }
  const auto part = std::make_shared<Subset>(base, std::vector<int64_t>{2, 1});
  EXPECT_EQ(part->stats().tokens, 7);
  EXPECT_EQ(part->stats().label_tokens, 3);
  EXPECT_EQ(Subset(part, {1}).stats().label_tokens, 0);  // a limit of a split
  EXPECT_EQ(Subset(base, {0, 1, 2}).stats().label_tokens, 4);
}

TEST(Subset, IsHashedByWhatIsInIt) {
  const auto base =
      std::make_shared<TokenDataset>(CountingTokenDataset({2, 3, 4}, 8));
  EXPECT_EQ(Subset(base, {0, 1}).hash(), Subset(base, {0, 1}).hash());
  EXPECT_NE(Subset(base, {0, 1}).hash(), Subset(base, {1, 0}).hash());
  EXPECT_NE(Subset(base, {0, 1}).hash(), Subset(base, {0}).hash());
}

TEST(FirstIndices, TakesWhatThereIs) {
  EXPECT_THAT(FirstIndices({4, 6, 9}, 2), ElementsAre(4, 6));
  EXPECT_THAT(FirstIndices({4, 6}, 9), ElementsAre(4, 6));
}

}  // namespace
}  // namespace mpsd::data
