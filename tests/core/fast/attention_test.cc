// SPDX-License-Identifier: Apache-2.0
#include "core/fast/attention.h"

#include <tuple>

#include "tests/core/fast/tiny.h"

namespace mpsd::fast {
namespace {

constexpr HeadShape kShape{4, 2, 8};

// Kernels, packed rows, window.
class AttentionTest
    : public testing::TestWithParam<std::tuple<Kernels, bool, int64_t>> {};

TEST_P(AttentionTest, IsTheModelsAttentionWithItsGradients) {
  const auto& [kernels, packed, window] = GetParam();
  at::manual_seed(3);
  const int64_t rows = 2, length = 24;
  const model::DecoderInputs inputs =
      packed ? PackedInputs(rows, length) : Inputs(rows, length);
  Options options;
  options.kernels = kernels;
  const AttentionPlan plan = PlanAttention(inputs, window, kShape, options);
  const auto random = [&](int64_t heads) {
    return at::randn({rows, length, heads, 8}).requires_grad_(true);
  };
  const at::Tensor q = random(4), k = random(2), v = random(2);
  const at::Tensor dout = at::randn({rows * length, 32});
  const at::Tensor expected =
      model::CausalAttention(q.transpose(1, 2), k.transpose(1, 2),
                             v.transpose(1, 2), {inputs.segment_ids, window},
                             model::AttentionKernel::kFused)
          .transpose(1, 2)
          .reshape({rows * length, 32});
  expected.backward(dout);

  AttentionTape tape;
  const AttentionInputs in = PrepareAttention(
      v.detach().reshape({rows * length, 16}), plan, kShape, options, tape);
  in.q.copy_(q.detach().view(in.q.sizes()));
  in.k.copy_(k.detach().view(in.k.sizes()));
  const at::Tensor out = AttentionForward(plan, kShape, options, tape);
  EXPECT_LE(RelativeError(out, expected), 2e-6);
  const AttentionInputs grad =
      AttentionBackward(dout, plan, kShape, options, tape);
  EXPECT_LE(RelativeError(grad.q.reshape(q.sizes()), q.grad()), 2e-6);
  EXPECT_LE(RelativeError(grad.k.reshape(k.sizes()), k.grad()), 2e-6);
  EXPECT_LE(RelativeError(grad.v.reshape(v.sizes()), v.grad()), 2e-6);
}

INSTANTIATE_TEST_SUITE_P(
    All, AttentionTest,
    testing::Combine(testing::Values(Kernels::kCpu, Kernels::kMps),
                     testing::Bool(), testing::Values(0, 5, 64)));

}  // namespace
}  // namespace mpsd::fast
