// SPDX-License-Identifier: Apache-2.0
#include "client/plot/sparkline.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace mpsd::client {
namespace {

constexpr double kLargest = std::numeric_limits<double>::max();

struct Case {
  std::vector<double> values;
  int columns;
  const char* blocks;
  const char* plain;
};

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
