// SPDX-License-Identifier: Apache-2.0
#include "core/data/token_arrays.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/core/data/model_folder.h"

namespace mpsd::data {
namespace {

std::vector<TokenSample> RandomSamples(int count, int longest) {
  std::mt19937 random(3);
  std::vector<TokenSample> samples(count);
  for (TokenSample& sample : samples) {
    const int length = 1 + static_cast<int>(random() % longest);
    for (int i = 0; i < length; ++i) {
      sample.input_ids.push_back(static_cast<int32_t>(random()));
      sample.in_loss.push_back(random() % 3 == 0);
    }
  }
  return samples;
}

TEST(TokenArraysTest, GivesBackEverySample) {
  // More than a block of each array but the ends.
  const std::vector<TokenSample> samples = RandomSamples(40, 40'000);
  const TokenArrays arrays(samples);
  ASSERT_EQ(arrays.size(), 40);
  ASSERT_GT(arrays.tokens(), 600'000);
  int64_t begin = 0;
  for (int64_t i = 0; i < 40; ++i) {
    EXPECT_EQ(arrays.begin(i), begin);
    EXPECT_EQ(arrays.length(i), std::ssize(samples[i].input_ids));
    EXPECT_EQ(arrays.sample(i), samples[i]) << i;
    begin += arrays.length(i);
  }
  EXPECT_EQ(begin, arrays.tokens());
}

TEST(TokenArraysTest, MoreSamplesThanABlockHolds) {
  TokenArrays arrays;
  for (int32_t i = 0; i < 300'000; ++i) arrays.Add(&i, nullptr, 1);
  for (const int64_t i : {0, 131'071, 131'072, 262'144, 299'999}) {
    EXPECT_EQ(arrays.length(i), 1);
    EXPECT_EQ(arrays.id(arrays.begin(i)), i);
    EXPECT_FALSE(arrays.mark(i));
  }
}

TEST(TokenArraysTest, ATokenCostsFourBytesAndABit) {
  TokenArrays arrays;
  const std::vector<int32_t> ids(1000);
  for (int i = 0; i < 640; ++i) arrays.Add(ids.data(), nullptr, 1000);
  EXPECT_EQ(arrays.bytes(), 640'000 * 4 + 640'000 / 8 + 640 * 8);
}

TEST(TokenArraysTest, AnEmptySampleIsOne) {
  TokenArrays arrays;
  const int32_t id = 7;
  arrays.Add(&id, nullptr, 0);
  arrays.Add(&id, nullptr, 1);
  EXPECT_EQ(arrays.length(0), 0);
  EXPECT_EQ(arrays.length(1), 1);
  EXPECT_EQ(arrays.sample(0), TokenSample());
}

TEST(BlockArrayTest, PiecesAreTheWholeInOrder) {
  BlockArray<int32_t> array;
  std::vector<int32_t> all(700'000);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int32_t>(i);
  array.Append(all.data(), 5);
  array.Append(all.data() + 5, std::ssize(all) - 5);
  EXPECT_EQ(array.back(), all.back());
  const BlockArray<int32_t> view(all.data(), std::ssize(all));
  for (const bool viewed : {false, true}) {
    const BlockArray<int32_t>& a = viewed ? view : array;
    std::vector<int32_t> pieces;
    a.ForEachPiece([&](const int32_t* values, int64_t count) {
      pieces.insert(pieces.end(), values, values + count);
    });
    EXPECT_EQ(pieces, all);
    EXPECT_EQ(a[262'144], 262'144);
  }
  BlockArray<int32_t>().ForEachPiece(
      [](const int32_t*, int64_t) { FAIL() << "nothing has no pieces"; });
}

}  // namespace
}  // namespace mpsd::data
