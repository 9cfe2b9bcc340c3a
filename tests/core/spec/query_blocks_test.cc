// SPDX-License-Identifier: Apache-2.0
#include "core/spec/query_blocks.h"

#include <gtest/gtest.h>

namespace mpsd::spec {
namespace {

TEST(QueriesPerBlockTest, AShortRowIsOneBlock) {
  EXPECT_EQ(QueriesPerBlock(1, 9, 512, /*cached=*/false), 512);
  EXPECT_EQ(QueriesPerBlock(4, 4, 20, /*cached=*/false), 20);
}

// However long the rows and many the heads, but for 32 queries at least.
TEST(QueriesPerBlockTest, ScoresOfABlockStayWithinABound) {
  for (const int64_t heads : {1, 12, 28, 64}) {
    for (int64_t length = 64; length <= 32768; length *= 2) {
      for (const int64_t rows : {1, 3, 8}) {
        for (const bool cached : {false, true}) {
          const int64_t count = QueriesPerBlock(rows, heads, length, cached);
          EXPECT_GE(count, 32);
          EXPECT_LE(count, length);
          if (count > 32) {
            EXPECT_LE(rows * heads * length * count, int64_t{1} << 27)
                << rows << " " << heads << " " << length;
          }
          if (cached) {
            EXPECT_LE(count, 128);
          }
        }
      }
    }
  }
}

TEST(QueriesPerBlockTest, AWholeNumberNeverOverflowsALength) {
  EXPECT_EQ(QueriesPerBlock(1, 32, 33, /*cached=*/false), 33);
  EXPECT_EQ(QueriesPerBlock(1, 2, 70, /*cached=*/true), 64);
}

}  // namespace
}  // namespace mpsd::spec
