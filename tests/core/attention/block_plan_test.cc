// SPDX-License-Identifier: Apache-2.0
#include "core/attention/block_plan.h"

#include <cmath>
#include <utility>

#include "tests/core/attention/layouts.h"

namespace mpsd::attention {
namespace {

constexpr HeadShape kMany{128, 64, 2};

Options Mps() {
  Options options;
  options.traits = backend::TraitsOf(Choice::kMps);
  return options;
}

TEST(BlockPlanTest, BlocksSkipKeysOfOtherSegments) {
  const int64_t length = 512;
  TokenLayout layout = Rows(1, length);
  layout.segment_ids = at::cat(
      {at::zeros({1, 256}, at::kLong), at::ones({1, 256}, at::kLong)}, 1);
  layout.segment_lengths = SegmentLengths(layout.segment_ids);
  const AttentionPlan plan = PlanAttention(layout, 0, false, kMany, Mps());
  ASSERT_EQ(plan.blocks.size(), 2u);
  EXPECT_EQ(plan.blocks[1].first_key, 256);
  EXPECT_EQ(plan.blocks[1].keys, 256);
}

// [count, keys] of a block's scores, by the definition: 0 or −inf.
at::Tensor HiddenOf(const TokenLayout& layout, const QueryBlock& b,
                    int64_t window) {
  const at::Tensor at = at::arange(layout.length);
  const at::Tensor distance = at.narrow(0, b.begin, b.count).unsqueeze(1) -
                              at.narrow(0, b.first_key, b.keys).unsqueeze(0);
  at::Tensor hidden = (distance < 0).unsqueeze(0);
  if (window > 0) hidden = hidden.logical_or(distance >= window);
  const at::Tensor& ids = layout.segment_ids;
  if (ids.defined()) {
    hidden = hidden.logical_or(ids.narrow(1, b.begin, b.count).unsqueeze(2) !=
                               ids.narrow(1, b.first_key, b.keys).unsqueeze(1));
  }
  return at::zeros(hidden.sizes()).masked_fill_(hidden, -INFINITY);
}

// Rows of 600 tokens are blocks of 160, 320, 480 and 600 with the last one
// shorter, and with windows each block has other keys.
TEST(BlockPlanTest, FewMasksGoIntoProducts) {
  const TokenLayout layout = Rows(2, 600);
  for (const int64_t window : {0, 200}) {
    for (const int64_t group : {1, 2}) {
      const HeadShape shape{64, 64 / group, 4};
      const AttentionPlan plan =
          PlanAttention(layout, window, false, shape, Mps());
      ASSERT_GT(plan.blocks.size(), 1u);
      ASSERT_NE(plan.blocks.back().count, plan.blocks.front().count);
      for (const QueryBlock& b : plan.blocks) {
        ASSERT_EQ(b.mask.dim(), 3);
        EXPECT_TRUE(b.mask.is_contiguous());
        EXPECT_TRUE(at::equal(
            b.mask, HiddenOf(layout, b, window).repeat_interleave(group, 1)));
      }
    }
  }
}

// A head of 16,384 tokens has more of them than are kept.
TEST(BlockPlanTest, ManyMasksAreViewsOfOneBand) {
  const AttentionPlan plan =
      PlanAttention(Rows(1, 16384), 0, false, {2, 1, 4}, Mps());
  ASSERT_GT(plan.blocks.size(), 1u);
  for (const QueryBlock& b : plan.blocks) {
    EXPECT_EQ(b.mask.dim(), 5);
    EXPECT_TRUE(b.mask.is_alias_of(plan.band));
  }
}

// Segments' masks are kept while they are few, and else made from the same.
TEST(BlockPlanTest, MasksOfManySegmentedTokensAreNotKept) {
  for (const auto& [rows, length] :
       {std::pair<int64_t, int64_t>{2, 600}, {3, 4000}}) {
    const TokenLayout layout = PackedRows(rows, length);
    const AttentionPlan plan = PlanAttention(layout, 0, false, kMany, Mps());
    for (const QueryBlock& b : plan.blocks) {
      EXPECT_EQ(b.mask.defined(), length == 600);
      if (!b.mask.defined()) continue;
      EXPECT_TRUE(
          at::equal(b.mask.squeeze(3).squeeze(1), HiddenOf(layout, b, 0)));
    }
  }
}

}  // namespace
}  // namespace mpsd::attention
