// SPDX-License-Identifier: Apache-2.0
#include "core/attention/attention_plan.h"

#include <string>
#include <utility>

#include "tests/core/attention/layouts.h"

namespace mpsd::attention {
namespace {

// Its flash attention has neither fp32 nor heads of any size; what the plan has
// blocks for runs without it.
TEST(AttentionPlanTest, WhatFlashAttentionOfCudaDoesNotTakeGoesByBlocks) {
  const auto blocks = [](at::ScalarType dtype, int64_t dim) {
    Options options;
    options.traits = backend::TraitsOf(Choice::kCuda);
    options.dtype = dtype;
    const HeadShape shape{4, 2, dim};
    return PlanAttention(Rows(2, 12), 0, false, shape, options).blocks.size();
  };
  EXPECT_EQ(blocks(at::kBFloat16, 64), 0);
  EXPECT_EQ(blocks(at::kFloat, 64), 1);
  EXPECT_EQ(blocks(at::kBFloat16, 20), 1);
  EXPECT_EQ(blocks(at::kBFloat16, 320), 1);
}

using Names = std::pair<std::string, std::string>;

Names NamesOf(Choice choice, at::ScalarType dtype, const TokenLayout& layout,
              int64_t window, int64_t dim = 64) {
  Options options;
  options.traits = backend::TraitsOf(choice);
  options.dtype = dtype;
  const AttentionPlan plan =
      PlanAttention(layout, window, false, {4, 2, dim}, options);
  return {NameOf(plan.forward), NameOf(plan.backward)};
}

// The table above PlanAttention, row by row.
TEST(AttentionPlanTest, BackendDtypeAndWindowDecideTheKernels) {
  const Names blocked = {"blocked", "blocked"}, flash = {"flash", "flash"};
  const TokenLayout rows = Rows(2, 12), packed = PackedRows(2, 12);
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    EXPECT_EQ(NamesOf(Choice::kMps, dtype, rows, 0), blocked);
    EXPECT_EQ(NamesOf(Choice::kMps, dtype, packed, 5), blocked);
    EXPECT_EQ(NamesOf(Choice::kCpu, dtype, rows, 5), blocked);
    EXPECT_EQ(NamesOf(Choice::kCpu, dtype, packed, 5), blocked);
    EXPECT_EQ(NamesOf(Choice::kCpu, dtype, packed, 0), flash);
  }
  EXPECT_EQ(NamesOf(Choice::kCpu, at::kFloat, rows, 0),
            Names("flash", "blocked"));
  EXPECT_EQ(NamesOf(Choice::kCpu, at::kFloat, rows, 12),
            Names("flash", "blocked"));  // a window that hides nothing
  EXPECT_EQ(NamesOf(Choice::kCpu, at::kBFloat16, rows, 0), flash);
  EXPECT_EQ(NamesOf(Choice::kCuda, at::kFloat, rows, 0), blocked);
  EXPECT_EQ(NamesOf(Choice::kCuda, at::kBFloat16, rows, 0), flash);
  EXPECT_EQ(NamesOf(Choice::kCuda, at::kBFloat16, packed, 5), flash);
}

TEST(AttentionPlanTest, CudnnTakesManyNumbersWithoutWindowOrSegments) {
  const auto names = [](const TokenLayout& layout, int64_t window,
                        int64_t dim) {
    return NamesOf(Choice::kCuda, at::kBFloat16, layout, window, dim);
  };
  const Names flash = {"flash", "flash"};
  EXPECT_EQ(names(Rows(64, 1024), 0, 64), Names("cudnn", "cudnn"));
  EXPECT_EQ(names(Rows(64, 1024), 8, 64), flash);
  EXPECT_EQ(names(PackedRows(64, 1024), 0, 64), flash);
  EXPECT_EQ(names(Rows(64, 1024), 0, 256), flash);
}

TEST(AttentionPlanTest, FlashAttentionOfCudaGetsTheStartsOfSegments) {
  Options options;
  options.traits = backend::TraitsOf(Choice::kCuda);
  options.dtype = at::kBFloat16;
  const TokenLayout layout = PackedRows(2, 12);
  const AttentionPlan plan =
      PlanAttention(layout, 0, false, {4, 2, 64}, options);
  ASSERT_EQ(plan.segment_starts.scalar_type(), at::kInt);
  const at::Tensor lengths = at::tensor(layout.segment_lengths);
  EXPECT_TRUE(at::equal(plan.segment_starts.diff().to(at::kLong), lengths));
  EXPECT_EQ(plan.segment_starts[0].item<int>(), 0);
  EXPECT_EQ(plan.longest_segment, lengths.max().item<int64_t>());
}

TEST(AttentionPlanTest, TokensMayLieByPosition) {
  const AttentionPlan plan = PlanAttention(Rows(2, 3), 0, true, {4, 2, 8}, {});
  const at::Tensor x = at::arange(2 * 3 * 4 * 8).view({2, 3, 4, 8});
  const at::Tensor tokens = plan.Tokens(x);
  EXPECT_TRUE(at::equal(tokens[1], x[1][0].flatten()));
  EXPECT_TRUE(at::equal(plan.ByRow(tokens, 8), x));
  const at::Tensor joined = plan.Join(x, x.narrow(2, 0, 1));
  EXPECT_TRUE(at::equal(joined, at::cat({x, x.narrow(2, 0, 1)}, 2)));
  EXPECT_TRUE(joined.transpose(0, 1).is_contiguous());
}

}  // namespace
}  // namespace mpsd::attention
