// SPDX-License-Identifier: Apache-2.0
#include "core/metrics/predictions.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mpsd::metrics {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Predictions, ClassesHaveTheHighestLogitTheFirstOfEquals) {
  Predictions p;
  p.outputs = 3;
  p.logits = {0, 2, 1, -1, -3, -2, 5, 7, 7};
  EXPECT_EQ(p.rows(), 3);
  EXPECT_THAT(p.Classes(), ElementsAre(1, 0, 1));
}

TEST(Predictions, NoOutputsAreNoRows) {
  EXPECT_EQ(Predictions().rows(), 0);
  EXPECT_THAT(Predictions().Classes(), IsEmpty());
}

}  // namespace
}  // namespace mpsd::metrics
