// SPDX-License-Identifier: Apache-2.0
#include "core/fast/blocked_attention.h"

#include "tests/core/fast/tiny.h"

namespace mpsd::fast {
namespace {

constexpr HeadShape kMany{128, 64, 2};

Options Mps() {
  Options options;
  options.kernels = Kernels::kMps;
  return options;
}

TEST(BlockedAttentionTest, ManyScoresAreSeveralBlocks) {
  at::manual_seed(4);
  const int64_t length = 512;
  const AttentionPlan plan =
      PlanAttention(Inputs(1, length), 0, false, kMany, Mps());
  ASSERT_EQ(plan.blocks.size(), 2u);
  EXPECT_EQ(plan.blocks[0].keys, 256);
  EXPECT_EQ(plan.blocks[1].keys, length);

  const auto random = [&](int64_t heads) {
    return at::randn({1, heads, length, 2}).requires_grad_(true);
  };
  const at::Tensor q = random(128), k = random(64), v = random(64);
  const at::Tensor expected =
      model::CausalAttention(q, k, v, {}, model::AttentionKernel::kFused);
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
  model::DecoderInputs inputs = Inputs(1, length);
  inputs.segment_ids = at::cat(
      {at::zeros({1, 256}, at::kLong), at::ones({1, 256}, at::kLong)}, 1);
  inputs.segment_lengths = model::SegmentLengths(inputs.segment_ids);
  const AttentionPlan plan = PlanAttention(inputs, 0, false, kMany, Mps());
  ASSERT_EQ(plan.blocks.size(), 2u);
  EXPECT_EQ(plan.blocks[1].first_key, 256);
  EXPECT_EQ(plan.blocks[1].keys, 256);
}

}  // namespace
}  // namespace mpsd::fast
