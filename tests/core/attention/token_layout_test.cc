// SPDX-License-Identifier: Apache-2.0
#include "core/attention/token_layout.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mpsd::attention {
namespace {

using testing::ElementsAre;

TEST(SegmentLengthsTest, ASegmentEndsWithItsRow) {
  const at::Tensor ids = at::tensor({0, 0, 1, -1,   //
                                     -1, 0, 0, 0},  //
                                    at::kLong)
                             .view({2, 4});
  EXPECT_THAT(SegmentLengths(ids), ElementsAre(2, 1, 1, 1, 3));
}

TEST(SegmentLengthsTest, ReadsAViewByItsOrder) {
  const at::Tensor ids = at::tensor({0, 5, 0, 5, 1, 5}, at::kLong).view({3, 2});
  EXPECT_THAT(SegmentLengths(ids.t()), ElementsAre(2, 1, 3));
}

TEST(SegmentLengthsDeathTest, WantsRows) {
  EXPECT_DEATH(SegmentLengths(at::zeros({4}, at::kLong)),
               "dimensions of segment_ids");
}

}  // namespace
}  // namespace mpsd::attention
