// SPDX-License-Identifier: Apache-2.0
#include "core/attention/blocked_attention.h"

#include "core/attention/attention.h"
#include "core/attention/block_plan.h"
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
