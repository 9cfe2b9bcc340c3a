// SPDX-License-Identifier: Apache-2.0
#include "core/attention/head_layout.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace mpsd::attention {
namespace {

constexpr HeadShape kShape{.heads = 4, .kv_heads = 2, .dim = 3};

// By token, [2, 5, heads, 3]: every number another.
at::Tensor Tokens(int64_t heads) {
  return at::arange(2 * 5 * heads * 3, at::kFloat).view({2, 5, heads, 3});
}

TEST(HeadLayoutTest, ByHeadIsItsOwnReverse) {
  const at::Tensor x = Tokens(4);
  EXPECT_TRUE(at::equal(SwapTokensAndHeads(x)[1][2], x.select(2, 2)[1]));
  EXPECT_TRUE(at::equal(SwapTokensAndHeads(SwapTokensAndHeads(x)), x));
}

TEST(HeadLayoutTest, QueryHeadsThatShareKeysAreRowsOfOneMatrix) {
  const at::Tensor x = Tokens(4), blocks = ToBlockedLayout(x, 2);
  ASSERT_EQ(blocks.sizes(), at::IntArrayRef({2, 2, 5, 2, 3}));
  EXPECT_TRUE(blocks.is_contiguous());
  // Row 1, kv head 1, position 4, its first query head: head 2.
  EXPECT_TRUE(at::equal(blocks[1][1][4][0], x[1][4][2]));
  EXPECT_TRUE(at::equal(FromBlockedLayout(blocks), x));
}

TEST(HeadLayoutTest, EachQueryHeadGetsTheKeysItShares) {
  const at::Tensor keys = Tokens(2), each = ForEachHead(keys, kShape);
  ASSERT_EQ(each.size(2), 4);
  for (int64_t head = 0; head < 4; ++head) {
    EXPECT_TRUE(at::equal(each.select(2, head), keys.select(2, head / 2)));
  }
  EXPECT_TRUE(at::equal(FromEachHead(each, kShape), 2 * keys));
  EXPECT_TRUE(ForEachHead(keys, EachWithKeys({2, 1, 3})).is_same(keys));
}

TEST(HeadLayoutDeathTest, HeadsAreWholeGroups) {
  EXPECT_DEATH(ToBlockedLayout(Tokens(4), 3), "heads beyond whole groups");
}

}  // namespace
}  // namespace mpsd::attention
