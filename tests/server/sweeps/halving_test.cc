// SPDX-License-Identifier: Apache-2.0
#include "server/sweeps/halving.h"

#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mpsd::sweeps {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(RungsFor, EachIsEtaTimesTheOneBefore) {
  EXPECT_THAT(RungsFor(9, 3, 90), ElementsAre(10, 30));
  EXPECT_THAT(RungsFor(27, 3, 270), ElementsAre(10, 30, 90));
  EXPECT_THAT(RungsFor(8, 2, 80), ElementsAre(10, 20, 40));
  // Steps and children that are no power of eta.
  EXPECT_THAT(RungsFor(9, 3, 100), ElementsAre(11, 33));
  EXPECT_THAT(RungsFor(8, 3, 90), ElementsAre(30));
  EXPECT_THAT(RungsFor(500, 16, 10'000), ElementsAre(39, 624));
}

TEST(RungsFor, FewStepsHaveFewRungs) {
  EXPECT_THAT(RungsFor(27, 3, 10), ElementsAre(1, 3));
  EXPECT_THAT(RungsFor(27, 3, 3), ElementsAre(1));
  EXPECT_THAT(RungsFor(27, 3, 2), IsEmpty());
  EXPECT_THAT(RungsFor(2, 3, 100), IsEmpty()) << "nothing to thin out";
  EXPECT_THAT(RungsFor(1, 2, 100), IsEmpty());
  EXPECT_THAT(RungsFor(9, 1, 100), IsEmpty());
}

// Whatever the figures, rungs ascend and end before the last step.
TEST(RungsFor, EveryRungIsAStepBeforeTheEnd) {
  for (const int64_t children : {2, 3, 7, 10, 100, 500}) {
    for (const int64_t eta : {2, 3, 5, 16}) {
      for (const int64_t steps : {1, 2, 5, 17, 1000, 1'000'000}) {
        int64_t before = 0, left = children;
        for (const int64_t rung : RungsFor(children, eta, steps)) {
          EXPECT_GT(rung, before);
          EXPECT_LT(rung, steps);
          before = rung;
          EXPECT_GE(left, eta) << "somebody is to be dropped";
          left = GoOn(left, eta);
        }
        EXPECT_GE(left, 1);
      }
    }
  }
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(Ranked, TheBestComesFirst) {
  EXPECT_THAT(Ranked({{0.5, 0.2, 0.9}}, false), ElementsAre(1, 0, 2));
  EXPECT_THAT(Ranked({{0.5, 0.2, 0.9}}, true), ElementsAre(2, 0, 1));
  EXPECT_THAT(Ranked({}, true), IsEmpty());
}

TEST(Ranked, EqualOnesStandInTheOrderInWhichTheyWereMade) {
  EXPECT_THAT(Ranked({{0.5, 0.2, 0.5, 0.2}}, false), ElementsAre(1, 3, 0, 2));
  EXPECT_THAT(Ranked({{0.0, -0.0}}, false), ElementsAre(0, 1));
}

TEST(Ranked, WhoHasNoNumberComesLast) {
  for (const bool greater : {false, true}) {
    EXPECT_THAT(Ranked({{kNan, 0.5, std::nullopt, kInf, -kInf, 0.5}}, greater),
                ElementsAre(1, 5, 0, 2, 3, 4))
        << greater;
  }
  EXPECT_THAT(Ranked({{kNan, std::nullopt}}, false), ElementsAre(0, 1));
}

TEST(GoOn, OneOfEtaAndAtLeastOne) {
  EXPECT_EQ(GoOn(9, 3), 3);
  EXPECT_EQ(GoOn(8, 3), 2);
  EXPECT_EQ(GoOn(3, 3), 1);
  EXPECT_EQ(GoOn(2, 3), 1);
  EXPECT_EQ(GoOn(1, 3), 1);
  EXPECT_EQ(GoOn(500, 2), 250);
}

}  // namespace
}  // namespace mpsd::sweeps
