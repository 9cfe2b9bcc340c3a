// SPDX-License-Identifier: Apache-2.0
#include "server/sweeps/random_draw.h"

#include <array>

#include "gtest/gtest.h"

namespace mpsd::sweeps {
namespace {

// The first numbers of SplitMix64 with the seed 1234567, as its authors'
// program prints them.
TEST(RandomDraw, IsSplitMix64) {
  RandomDraw draw(1234567);
  EXPECT_EQ(draw.Bits(), 6457827717110365317u);
  EXPECT_EQ(draw.Bits(), 3203168211198807973u);
  EXPECT_EQ(draw.Bits(), 9817491932198370423u);
}

TEST(RandomDraw, SharesAndNumbersStayWithinTheirBounds) {
  RandomDraw draw(-1);
  std::array<int, 3> seen = {};
  for (int i = 0; i < 3000; ++i) {
    const double share = draw.Share();
    EXPECT_GE(share, 0);
    EXPECT_LT(share, 1);
    ++seen.at(draw.Below(3));
  }
  for (const int count : seen) EXPECT_NEAR(count, 1000, 120);
  EXPECT_EQ(draw.Below(1), 0);
}

}  // namespace
}  // namespace mpsd::sweeps
