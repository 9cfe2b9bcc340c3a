// SPDX-License-Identifier: Apache-2.0
#include "core/attention/blocked_attention.h"

#include <cmath>

#include "core/attention/attention.h"
#include "tests/core/attention/layouts.h"

namespace mpsd::attention {
namespace {

constexpr HeadShape kMany{128, 64, 2};

Options Mps() {
  Options options;
  options.traits = backend::TraitsOf(Choice::kMps);
  return options;
}

TEST(BlockedAttentionTest, ManyScoresAreSeveralBlocks) {
  at::manual_seed(4);
  const int64_t length = 512;
  const AttentionPlan plan =
      PlanAttention(Rows(1, length), 0, false, kMany, Mps());
  ASSERT_EQ(plan.blocks.size(), 2u);
  EXPECT_EQ(plan.blocks[0].keys, 256);
  EXPECT_EQ(plan.blocks[1].keys, length);

  const auto random = [&](int64_t heads) {
    return at::randn({1, heads, length, 2}).requires_grad_(true);
  };
  const at::Tensor q = random(128), k = random(64), v = random(64);
  const at::Tensor expected =
      CausalAttention(q, k, v, {}, AttentionKernel::kFused);
  const at::Tensor dout = at::randn(expected.sizes());
  expected.backward(dout);
  AttentionTape tape;
  tape.q = q.detach().view({1, 64, 2, length, 2}).transpose(2, 3).contiguous();
  tape.k = k.detach();
  tape.v = v.detach();
  const auto grouped = [&](const at::Tensor& x) {
    return x.view({1, 64, 2, length, 2}).transpose(2, 3).contiguous();
  };
  EXPECT_LE(RelativeError(BlockedForward(plan, kMany, tape),
                          grouped(expected.detach())),
            2e-6);
  const BlockedGradients grad =
      BlockedBackward(grouped(dout), plan, kMany, Mps(), tape);
  EXPECT_LE(RelativeError(grad.q, grouped(q.grad())), 2e-6);
  EXPECT_LE(RelativeError(grad.k, k.grad()), 2e-6);
  EXPECT_LE(RelativeError(grad.v, v.grad()), 2e-6);
}

TEST(BlockedAttentionTest, BlocksSkipKeysOfOtherSegments) {
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
TEST(BlockedAttentionTest, FewMasksGoIntoProducts) {
  const TokenLayout layout = Rows(2, 600);
  for (const int64_t window : {0, 200}) {
    for (const int64_t group : {1, 2}) {
      BandMasks bands;
      const HeadShape shape{64, 64 / group, 4};
      const AttentionPlan plan =
          PlanAttention(layout, window, false, shape, Mps(), &bands);
      ASSERT_GT(plan.blocks.size(), 1u);
      ASSERT_NE(plan.blocks.back().count, plan.blocks.front().count);
      for (const QueryBlock& b : plan.blocks) {
        ASSERT_EQ(b.mask.dim(), 3);
        EXPECT_TRUE(b.mask.is_contiguous());
        EXPECT_TRUE(at::equal(
            b.mask, HiddenOf(layout, b, window).repeat_interleave(group, 1)));
      }
      EXPECT_EQ(bands.bytes(), plan.band.nbytes());
    }
  }
}

// A head of 16,384 tokens has more of them than are kept.
TEST(BlockedAttentionTest, ManyMasksAreViewsOfOneBand) {
  BandMasks bands;
  const AttentionPlan plan =
      PlanAttention(Rows(1, 16384), 0, false, {2, 1, 4}, Mps(), &bands);
  ASSERT_GT(plan.blocks.size(), 1u);
  for (const QueryBlock& b : plan.blocks) {
    EXPECT_EQ(b.mask.dim(), 5);
    EXPECT_TRUE(b.mask.is_alias_of(plan.band));
  }
  EXPECT_EQ(bands.bytes(), plan.band.nbytes());
}

// Segments' masks are kept while they are few, and else made from the same.
TEST(BlockedAttentionTest, MasksOfManySegmentedTokensAreNotKept) {
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

// Both ways give the model's attention.
TEST(BlockedAttentionTest, SegmentsMasksMadeAnewAreThoseThatWereKept) {
  at::manual_seed(5);
  const HeadShape shape{4, 2, 8};
  AttentionPlan plan =
      PlanAttention(PackedRows(2, 96), 20, false, shape, Mps());
  ASSERT_TRUE(plan.blocks[0].mask.defined());
  AttentionTape tape;
  tape.q = at::randn({2, 2, 96, 2, 8});
  tape.k = at::randn({2, 2, 96, 1, 8});
  tape.v = at::randn({2, 2, 96, 1, 8});
  const at::Tensor kept = BlockedForward(plan, shape, tape);
  for (QueryBlock& b : plan.blocks) b.mask.reset();
  EXPECT_TRUE(at::equal(BlockedForward(plan, shape, tape), kept));
}

// All keys' dp are nearly the same, and the keys too: what bf16 loses of their
// sum comes on every query's gradient. By the calls of MPS, which take what the
// values have in common out of them, less is lost than by the CPU's, which sum
// in fp32.
TEST(BlockedAttentionTest, CentredValuesSurviveBf16) {
  at::manual_seed(6);
  const int64_t length = 512, dim = 16;
  const HeadShape shape{2, 2, dim};
  const auto random = [&](double mean) {
    return (at::randn({1, 2, length, 1, dim}) + mean).to(at::kBFloat16);
  };
  AttentionTape tape;
  tape.q = random(0).mul(0.1);
  tape.k = random(4);
  tape.v = random(8);
  const at::Tensor dout = random(1);
  const auto dq = [&](Choice choice, at::ScalarType dtype) {
    Options options;
    options.traits = backend::TraitsOf(choice);
    options.dtype = dtype;
    AttentionPlan plan;
    plan.rows = 1;
    plan.length = length;
    PlanBlocks(Rows(1, length), shape, options, nullptr, plan);
    AttentionTape cast;
    cast.q = tape.q.to(dtype);
    cast.k = tape.k.to(dtype);
    cast.v = tape.v.to(dtype);
    return BlockedBackward(dout.to(dtype), plan, shape, options, cast)
        .q.to(at::kFloat);
  };
  const at::Tensor exact = dq(Choice::kCpu, at::kFloat);
  EXPECT_LE(RelativeError(dq(Choice::kMps, at::kBFloat16), exact),
            0.5 * RelativeError(dq(Choice::kCpu, at::kBFloat16), exact));
}

}  // namespace
}  // namespace mpsd::attention
