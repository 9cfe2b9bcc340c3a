// SPDX-License-Identifier: Apache-2.0
#include "core/attention/planned_attention.h"

#include <tuple>

#include "core/attention/attention.h"
#include "tests/core/attention/layouts.h"

namespace mpsd::attention {
namespace {

constexpr HeadShape kShape{4, 2, 8};

enum class Order { kRows, kPackedRows, kPositions };

// Forward and backward against autograd over the model's own attention.
void ExpectTheModelsAttention(const TokenLayout& layout,
                              const AttentionPlan& plan, int64_t window,
                              const Options& options) {
  const auto random = [&](int64_t heads) {
    return at::randn({plan.rows, plan.length, heads, 8}).requires_grad_(true);
  };
  const at::Tensor q = random(4), k = random(2), v = random(2);
  const at::Tensor dout = at::randn({plan.rows * plan.length, 32});
  const at::Tensor expected = plan.Tokens(
      CausalAttention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2),
                      {layout.segment_ids, window}, AttentionKernel::kFused)
          .transpose(1, 2));
  expected.backward(dout);

  AttentionTape tape;
  const at::Tensor out = AttentionForward({q.detach(), k.detach(), v.detach()},
                                          plan, kShape, tape);
  EXPECT_LE(RelativeError(out, expected), 2e-6);
  // Flash attention leaves its log-sum-exp behind, and who has blocks uses
  // them.
  EXPECT_STREQ(NameOf(plan.forward), tape.lse.empty() ? "blocked" : "flash");
  EXPECT_STREQ(NameOf(plan.backward),
               plan.blocks.empty() ? "flash" : "blocked");
  const AttentionInputs grad =
      AttentionBackward(dout, plan, kShape, options, tape);
  EXPECT_LE(RelativeError(grad.q, q.grad()), 2e-6);
  EXPECT_LE(RelativeError(grad.k, k.grad()), 2e-6);
  EXPECT_LE(RelativeError(grad.v, v.grad()), 2e-6);
}

class PlannedAttentionTest
    : public testing::TestWithParam<std::tuple<Choice, Order, int64_t>> {};

TEST_P(PlannedAttentionTest, IsTheModelsAttentionWithItsGradients) {
  const auto& [choice, order, window] = GetParam();
  at::manual_seed(3);
  const int64_t rows = 2, length = 24;
  const TokenLayout layout = order == Order::kPackedRows
                                 ? PackedRows(rows, length)
                                 : Rows(rows, length);
  Options options;
  options.traits = backend::TraitsOf(choice);
  const AttentionPlan plan = PlanAttention(
      layout, window, order == Order::kPositions, kShape, options);
  ExpectTheModelsAttention(layout, plan, window, options);
}

INSTANTIATE_TEST_SUITE_P(
    All, PlannedAttentionTest,
    testing::Combine(testing::Values(Choice::kCpu, Choice::kMps, Choice::kCuda),
                     testing::Values(Order::kRows, Order::kPackedRows,
                                     Order::kPositions),
                     testing::Values(0, 5, 64)));

// Its backward goes by blocks of queries, as if each head had its own keys.
TEST(PlannedAttentionOnCpuTest, LongRowsAreSeveralBlocks) {
  at::manual_seed(8);
  for (const int64_t rows : {1, 3}) {
    const TokenLayout layout = Rows(rows, 200);
    const AttentionPlan plan = PlanAttention(layout, 0, false, kShape, {});
    ASSERT_EQ(plan.blocks.size(), 4u);
    ExpectTheModelsAttention(layout, plan, 0, {});
  }
}

// So many numbers that on CUDA cuDNN takes them.
TEST(PlannedAttentionOnCpuTest, ManyNumbersInBf16AreItsOwnKernels) {
  at::manual_seed(8);
  const int64_t rows = 384, length = 64;
  const HeadShape shape{2, 2, 64};
  Options options;
  options.dtype = at::kBFloat16;
  const AttentionPlan plan =
      PlanAttention(Rows(rows, length), 0, false, shape, options);
  const auto random = [&] {
    return at::randn({rows, length, 2, 64}, at::kBFloat16);
  };
  AttentionTape tape;
  const at::Tensor out =
      AttentionForward({random(), random(), random()}, plan, shape, tape);
  const AttentionInputs grad =
      AttentionBackward(at::ones_like(out), plan, shape, options, tape);
  // The probabilities of each query add up to one.
  EXPECT_TRUE(at::allclose(grad.v.to(at::kFloat).sum(1),
                           at::full({rows, 2, 64}, 1.0 * length), 0.02, 0));
}

}  // namespace
}  // namespace mpsd::attention
