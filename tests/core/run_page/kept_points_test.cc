// SPDX-License-Identifier: Apache-2.0
#include "core/run_page/kept_points.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace mpsd::run_page {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;

std::vector<CurvesPoint> Points(int64_t steps, size_t curves) {
  std::vector<CurvesPoint> points;
  for (int64_t step = 1; step <= steps; ++step) {
    points.push_back({step, {}});
    for (size_t curve = 0; curve < curves; ++curve) {
      points.back().values.push_back(
          std::sin(static_cast<double>(step * (curve + 1))));
    }
  }
  return points;
}

TEST(KeptPointsTest, AllOfAShortRun) {
  EXPECT_THAT(KeptPoints(Points(3, 2), 64), ElementsAre(0, 1, 2));
  EXPECT_EQ(KeptPoints(Points(64, 2), 64).size(), 64u);
  EXPECT_TRUE(KeptPoints({}, 64).empty());
}

TEST(KeptPointsTest, AMillionStepsBecomeAsManyAsAskedFor) {
  const auto kept = KeptPoints(Points(1'000'000, 7), 4000);
  EXPECT_LE(kept.size(), 4000u);
  EXPECT_GT(kept.size(), 2000u);
  EXPECT_EQ(kept.front(), 0u);
  EXPECT_EQ(kept.back(), 999'999u);
  EXPECT_TRUE(std::is_sorted(kept.begin(), kept.end()));
  // No part of the run is without points.
  for (size_t i = 1; i < kept.size(); ++i) {
    EXPECT_LT(kept[i] - kept[i - 1], 1'000'000u / 100);
  }
}

// What draws a curve: its extremes in every stretch.
TEST(KeptPointsTest, NoPeakOfAnyCurveIsLost) {
  std::vector<CurvesPoint> points = Points(100'000, 3);
  points[12'345].values[0] = 50;
  points[12'346].values[0] = -50;
  points[77'777].values[2] = 9;
  const auto kept = KeptPoints(points, 500);
  EXPECT_LE(kept.size(), 500u);
  for (const size_t peak : {12'345, 12'346, 77'777}) {
    EXPECT_THAT(kept, Contains(peak));
  }
}

TEST(KeptPointsTest, AValueThatIsNotFiniteIsTold) {
  std::vector<CurvesPoint> points = Points(10'000, 2);
  points[5000].values[1] = std::numeric_limits<double>::quiet_NaN();
  points[8000].values[0] = std::numeric_limits<double>::infinity();
  for (size_t i = 9000; i < 10'000; ++i) {
    points[i].values = {std::nan(""), std::nan("")};
  }
  const auto kept = KeptPoints(points, 200);
  EXPECT_THAT(kept, Contains(5000u));
  EXPECT_THAT(kept, Contains(8000u));
  EXPECT_LE(kept.size(), 200u);
}

// A page takes the steps away that were done again: it must see where.
TEST(KeptPointsTest, BothSidesOfAReturnAreKept) {
  std::vector<CurvesPoint> points = Points(5000, 1);
  for (CurvesPoint point : Points(5000, 1)) {
    point.step += 3000;
    points.push_back(point);
  }
  const auto kept = KeptPoints(points, 64);
  EXPECT_LE(kept.size(), 64u);
  EXPECT_THAT(kept, Contains(4999u));
  EXPECT_THAT(kept, Contains(5000u));
}

TEST(KeptPointsTest, ReturnsAtEveryStepDoNotBreakTheBound) {
  std::vector<CurvesPoint> points;
  for (int i = 0; i < 10'000; ++i) points.push_back({7, {1, 2, 3}});
  EXPECT_LE(KeptPoints(points, 64).size(), 64u);
}

// Steps of the whole range of int64, as a hostile worker may count them.
TEST(KeptPointsTest, StepsMayBeAnything) {
  std::vector<CurvesPoint> points;
  for (int i = 0; i < 1000; ++i) {
    points.push_back({i % 2 == 0 ? std::numeric_limits<int64_t>::min()
                                 : std::numeric_limits<int64_t>::max(),
                      {1.0}});
  }
  EXPECT_LE(KeptPoints(points, 64).size(), 64u);
}

}  // namespace
}  // namespace mpsd::run_page
