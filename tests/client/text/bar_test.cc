// SPDX-License-Identifier: Apache-2.0
#include "client/text/bar.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "client/text/format.h"

namespace mpsd::client {
namespace {

constexpr double kLargest = std::numeric_limits<double>::max();

struct Case {
  std::vector<double> values;
  int columns;
  const char* blocks;
  const char* plain;
};

TEST(BarTest, FillsWithProgress) {
  EXPECT_EQ(Bar(0, 4, "x", 17, true), "  0% ────────── x");
  EXPECT_EQ(Bar(1, 4, "x", 17, true), " 25% ━━──────── x");
  EXPECT_EQ(Bar(4, 4, "x", 17, true), "100% ━━━━━━━━━━ x");
  EXPECT_EQ(Bar(9, 4, "x", 17, true), "100% ━━━━━━━━━━ x");
  EXPECT_EQ(Bar(1, 4, "x", 17, false), " 25% ##-------- x");
}

TEST(BarTest, NothingToDoIsNoProgress) {
  EXPECT_EQ(Bar(0, 0, "x", 17, true), "  0% ────────── x");
}

TEST(BarTest, GivesWayToTheText) {
  EXPECT_EQ(Bar(1, 4, "0123456789", 20, true), " 25% 0123456789");
  EXPECT_EQ(Bar(1, 4, "0123456789", 10, true), " 25% 0123…");
}

TEST(BarTest, NeverWiderThanTheScreen) {
  for (int columns = 1; columns < 120; ++columns) {
    EXPECT_LE(Width(Bar(3, 7, "step 3/7  loss 1.0", columns, true)), columns);
  }
}

TEST(SparklineTest, Golden) {
  const Case cases[] = {
      {{}, 9, "", ""},
      {{3}, 9, "▅", "="},
      {{2, 2, 2}, 9, "▅▅▅", "==="},
      {{0, 1, 2, 3, 4, 5, 6, 7}, 9, "▁▂▃▄▅▆▇█", "_.:-=+*#"},
      {{9, 9, 9, 2, 1}, 2, "█▁", "#_"},
      {{9, 2, 1}, 0, "", ""},
      {{9, 2, 1}, -5, "", ""},
      {{-kLargest, 0, kLargest}, 9, "▁▅█", "_=#"},
      {{1, NAN, 2, INFINITY, 1}, 9, "▁ █ ▁", "_ # _"},
      {{NAN, -INFINITY}, 9, "  ", "  "},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(Sparkline(c.values, c.columns, true), c.blocks);
    EXPECT_EQ(Sparkline(c.values, c.columns, false), c.plain);
  }
}

}  // namespace
}  // namespace mpsd::client
