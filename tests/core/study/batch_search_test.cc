// SPDX-License-Identifier: Apache-2.0
#include "core/study/batch_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mpsd::study {
namespace {

using testing::ElementsAre;

// The batches that a search tries on a machine on which `holds` rows fit.
std::vector<int64_t> Tried(int64_t first, int64_t most, int64_t holds,
                           int64_t* largest) {
  std::vector<BatchTrial> trials;
  std::vector<int64_t> batches;
  while (const auto batch = NextBatch(trials, first, most)) {
    EXPECT_GE(TrialsLeft(trials, first, most), 1) << *batch;
    trials.push_back({*batch, *batch <= holds});
    batches.push_back(*batch);
    if (batches.size() > 100) break;
  }
  EXPECT_EQ(TrialsLeft(trials, first, most), 0);
  *largest = LargestBatch(trials);
  return batches;
}

TEST(BatchSearch, DoublesThenBisects) {
  int64_t largest = 0;
  EXPECT_THAT(Tried(1, 1000, 11, &largest),
              ElementsAre(1, 2, 4, 8, 16, 12, 10, 11));
  EXPECT_EQ(largest, 11);
}

// Whatever the machine holds: exactly that is found.
TEST(BatchSearch, FindsTheLargestThatFits) {
  for (int64_t first : {1, 3, 8, 200}) {
    for (int64_t most : {1, 7, 64, 100}) {
      for (int64_t holds = 0; holds <= 110; ++holds) {
        int64_t largest = -1;
        const auto tried = Tried(first, most, holds, &largest);
        EXPECT_EQ(largest, std::min(holds, most))
            << first << " " << most << " " << holds;
        EXPECT_LE(tried.size(), 16u);
      }
    }
  }
}

TEST(BatchSearch, AResumedSearchGoesOnWhereItWas) {
  const std::vector<BatchTrial> trials = {{8, true}, {16, false}, {4, true}};
  EXPECT_EQ(NextBatch(trials, 1, 100), 12);
}

// A machine with noise: 12 did not fit, 14 did. What is told is safe.
TEST(BatchSearch, TheLargestLiesBelowEveryMiss) {
  EXPECT_EQ(LargestBatch({{14, true}, {12, false}, {10, true}}), 10);
  EXPECT_EQ(LargestBatch({}), 0);
}

TEST(BatchSearch, MemoryIsPredictedOnALine) {
  EXPECT_EQ(PredictedBytes({}, 100, 4), std::nullopt);
  EXPECT_EQ(PredictedBytes({{1, true, 150}}, 100, 4), 300);
  EXPECT_EQ(
      PredictedBytes({{2, true, 200}, {4, true, 260}, {1, true, 150}}, 100, 8),
      380);
  // Neither what lies above nor what is not known counts.
  EXPECT_EQ(
      PredictedBytes({{2, true, 200}, {4, true, 0}, {16, false, 900}}, 100, 8),
      500);
  EXPECT_EQ(PredictedBytes({{2, true, 300}, {4, true, 260}}, 100, 8), 260)
      << "memory never shrinks with the batch";
}

TEST(BatchSearch, TheKneeIsTheSmallestWithinTheThreshold) {
  const std::vector<BatchTrial> trials = {
      {1, true, 0, 100}, {2, true, 0, 190},  {4, true, 0, 290},
      {8, true, 0, 300}, {16, true, 0, 280}, {32, false, 0, 900}};
  EXPECT_EQ(KneeOf(trials, 0.05), 4);
  EXPECT_EQ(KneeOf(trials, 0), 8);
  EXPECT_EQ(KneeOf(trials, 0.5), 2);
  EXPECT_EQ(KneeOf({{1, false, 0, 5}}, 0.05), 0);
  EXPECT_EQ(KneeOf({}, 0.05), 0);
}

}  // namespace
}  // namespace mpsd::study
