// SPDX-License-Identifier: Apache-2.0
#include "core/study/spread.h"

#include <gtest/gtest.h>

namespace mpsd::study {
namespace {

TEST(Spread, LiesBetweenTheValues) {
  const Spread spread = SpreadOf({5, 1, 4, 2, 3});
  EXPECT_EQ(spread.median, 3);
  EXPECT_DOUBLE_EQ(spread.p10, 1.4);
  EXPECT_DOUBLE_EQ(spread.p90, 4.6);
  EXPECT_EQ(spread.min, 1);
  EXPECT_EQ(spread.max, 5);
  EXPECT_EQ(SpreadOf({1, 2}).median, 1.5);
}

TEST(Spread, OneValueAndNone) {
  EXPECT_EQ(SpreadOf({7}).p10, 7);
  EXPECT_EQ(SpreadOf({7}).p90, 7);
  EXPECT_EQ(SpreadOf({}).median, 0);
  EXPECT_EQ(ToJson(SpreadOf({7}))["p90"], 7);
}

TEST(MemoryCurve, GrowthIsTheLastAgainstTheFirst) {
  EXPECT_DOUBLE_EQ(GrowthOf({100, 500, 126}), 0.26);
  EXPECT_DOUBLE_EQ(GrowthOf({100, 90}), -0.1);
  EXPECT_EQ(GrowthOf({100}), 0);
  EXPECT_EQ(GrowthOf({}), 0);
  EXPECT_EQ(GrowthOf({0, 5}), 0);
}

TEST(MemoryCurve, SlopeIsOfLeastSquares) {
  EXPECT_DOUBLE_EQ(SlopeOf({1, 3, 5, 7}), 2);
  EXPECT_DOUBLE_EQ(SlopeOf({4, 4, 4}), 0);
  // Of 0, 0, 3 around their means: (1·2 − 1·(−1)) / 2.
  EXPECT_DOUBLE_EQ(SlopeOf({0, 0, 3}), 1.5);
  EXPECT_EQ(SlopeOf({7}), 0);
  EXPECT_EQ(SlopeOf({}), 0);
}

}  // namespace
}  // namespace mpsd::study
