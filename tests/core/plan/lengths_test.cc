// SPDX-License-Identifier: Apache-2.0
#include "core/plan/lengths.h"

#include <vector>

#include "core/plan/counted_rows.h"
#include "gtest/gtest.h"

namespace mpsd::plan {
namespace {

LengthSummary Of(std::vector<int32_t> lengths) {
  return Summarize(CountedRows(std::move(lengths)));
}

TEST(Lengths, NoRows) {
  EXPECT_EQ(Of({}).longest, 0);
  EXPECT_TRUE(Of({}).bins.empty());
}

TEST(Lengths, OneLength) {
  const LengthSummary summary = Of({7, 7, 7});
  EXPECT_EQ(summary.shortest, 7);
  EXPECT_EQ(summary.median, 7);
  EXPECT_EQ(summary.p95, 7);
  EXPECT_EQ(summary.mean, 7);
  ASSERT_EQ(summary.bins.size(), 1u);
  EXPECT_EQ(summary.bins[0], (LengthBin{7, 7, 3}));
}

TEST(Lengths, TheMedianAndTheTail) {
  std::vector<int32_t> lengths;
  for (int i = 1; i <= 100; ++i) lengths.push_back(i);
  EXPECT_EQ(Of(lengths).median, 50);
  EXPECT_EQ(Of(lengths).p95, 95);
  EXPECT_EQ(Of({1, 2}).median, 1);
  EXPECT_EQ(Of({1, 2, 9}).median, 2);
}

// Whatever the lengths, the bins join without a gap, are few and lose no row.
TEST(Lengths, TheBinsHoldEveryRow) {
  for (const int32_t longest :
       {1, 16, 17, 33, 100, 4096, 32768, 2'000'000'000}) {
    for (const int32_t shortest : {1, 15, 30, 1000}) {
      if (shortest > longest) continue;
      std::vector<int32_t> lengths = {shortest, longest, longest};
      for (int64_t at = shortest; at < longest; at = at * 5 / 4 + 1) {
        lengths.push_back(static_cast<int32_t>(at));
      }
      const LengthSummary summary = Of(lengths);
      ASSERT_FALSE(summary.bins.empty());
      EXPECT_LE(std::ssize(summary.bins), kMostBins) << longest;
      EXPECT_EQ(summary.bins.front().from, shortest);
      EXPECT_EQ(summary.bins.back().to, longest);
      int64_t rows = 0, next = shortest;
      for (const LengthBin& bin : summary.bins) {
        EXPECT_EQ(bin.from, next) << longest;
        EXPECT_LE(bin.from, bin.to);
        next = bin.to + 1;
        rows += bin.rows;
      }
      EXPECT_EQ(rows, std::ssize(lengths)) << shortest << " " << longest;
    }
  }
}

}  // namespace
}  // namespace mpsd::plan
