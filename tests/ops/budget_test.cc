// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mpsd::ops {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(BudgetTest, ReadsWhatItWrites) {
  const Budget budget = {{"a", {1, 2, 3, 4, 5, 6}},
                         {"b", {6, 7, 8, 9, 10, 11}}};
  EXPECT_EQ(ParseBudget(ToText(budget)), budget);
  EXPECT_FALSE(ParseBudget("a 1 2 3").has_value());
  EXPECT_FALSE(ParseBudget("a 1 2 3 4 5 6 7").has_value());
}

TEST(BudgetTest, WhatIsMoreIsNamed) {
  EXPECT_THAT(Excess({10, 2, 3, 1, 1, 5}, {9, 2, 4, 1, 1, 4}),
              ElementsAre("kernels 10, budget 9", "shapes 5, budget 4"));
  EXPECT_THAT(Excess({9, 2, 3, 1, 1, 4}, {9, 2, 4, 1, 1, 4}), IsEmpty());
}

TEST(BudgetTest, CostsAreThoseOfTheSteps) {
  Recording recording;
  recording.parts = {{"begin", 100, 100, 100, 100, 100, {"x"}, {}},
                     {"step", 1, 10, 7, 1, 2, {"a", "b"}, {}},
                     {"step", 2, 20, 5, 0, 1, {"b", "c"}, {}}};
  EXPECT_EQ(CostOf(recording), (Cost{3, 30, 7, 2, 1, 3}));
}

}  // namespace
}  // namespace mpsd::ops
