// SPDX-License-Identifier: Apache-2.0
#include "core/data/packing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/data/order.h"

namespace mpsd::data {
namespace {

using ::testing::ElementsAre;
using Rows = std::vector<std::vector<int64_t>>;

Rows Pack(const std::vector<int64_t>& lengths, int64_t capacity) {
  return PackBestFit(lengths, PlainOrder(lengths.size()), capacity);
}

TEST(PackBestFit, TakesTheTightestRow) {
  // 7 leaves 3, 6 leaves 4; 3 fits both and goes where nothing is left over.
  EXPECT_THAT(Pack({7, 3, 6, 4}, 10),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
}

TEST(PackBestFit, OfEqualSpacesTakesTheOldest) {
  EXPECT_THAT(Pack({6, 6, 2, 2}, 10),
              ElementsAre(ElementsAre(0, 2, 3), ElementsAre(1)));
  EXPECT_THAT(Pack({6, 6, 4, 4}, 10),
              ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3)));
}

TEST(PackBestFit, FullRowsTakeNothing) {
  EXPECT_THAT(Pack({10, 10, 1}, 10),
              ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2)));
  EXPECT_TRUE(Pack({}, 10).empty());
}

TEST(PackBestFit, LosesNothingAndNeverOverflows) {
  Random random(7);
  std::vector<int64_t> lengths;
  for (int i = 0; i < 500; ++i) {
    lengths.push_back(1 + static_cast<int64_t>(random.Below(64)));
  }
  size_t rows_before = 0;
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    const Rows rows = PackBestFit(lengths, ShuffledOrder(500, 1, epoch), 64);
    std::vector<int64_t> all;
    for (const auto& row : rows) {
      int64_t used = 0;
      for (int64_t index : row) used += lengths[index];
      EXPECT_LE(used, 64);
      all.insert(all.end(), row.begin(), row.end());
    }
    std::sort(all.begin(), all.end());
    EXPECT_EQ(all, PlainOrder(500));
    if (epoch > 0) {
      EXPECT_EQ(rows.size(), rows_before);
    }
    rows_before = rows.size();
  }
}

}  // namespace
}  // namespace mpsd::data
