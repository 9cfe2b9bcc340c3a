// SPDX-License-Identifier: Apache-2.0
// The kernel itself needs CUDA. Here the CPU has one of the same name that does
// what its arguments say, so that a wrong argument is a wrong result.
#include "core/attention/cudnn.h"

#include <torch/library.h>

#include <optional>
#include <tuple>

#include "core/attention/head_layout.h"
#include "tests/core/attention/reference.h"

namespace mpsd::attention {
namespace {

using Forwarded =
    std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt,
               c10::SymInt, at::Tensor, at::Tensor, at::Tensor>;
using Gradients = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

// The kernel takes [rows, heads, length, dim].
Reference ReferenceOf(const at::Tensor& q, const at::Tensor& k,
                      const at::Tensor& v) {
  const auto flat = [](const at::Tensor& x) {
    return SwapTokensAndHeads(x).flatten(0, 1);
  };
  return Reference({.q = flat(q), .k = flat(k), .v = flat(v)},
                   at::arange(q.size(0)).repeat_interleave(q.size(2)),
                   q.size(2));
}

at::Tensor Like(const at::Tensor& x, const at::Tensor& by_head) {
  return SwapTokensAndHeads(x.view(SwapTokensAndHeads(by_head).sizes()));
}

Forwarded FakeForward(const at::Tensor& q, const at::Tensor& k,
                      const at::Tensor& v,
                      const std::optional<at::Tensor>& bias, bool sums,
                      double dropout, bool causal, bool,
                      std::optional<double> scale) {
  EXPECT_FALSE(bias.has_value());
  EXPECT_TRUE(sums && causal);
  EXPECT_EQ(dropout, 0);
  EXPECT_FALSE(scale.has_value());
  const auto marked = [](double value) { return at::full({1}, value); };
  return {Like(ReferenceOf(q, k, v).out(), q),
          marked(1),
          at::Tensor(),
          at::Tensor(),
          q.sym_size(2),
          k.sym_size(2),
          marked(2),
          marked(3),
          at::Tensor()};
}

Gradients FakeBackward(const at::Tensor& dout, const at::Tensor& q,
                       const at::Tensor& k, const at::Tensor& v,
                       const at::Tensor& out, const at::Tensor& lse,
                       const at::Tensor& seed, const at::Tensor& offset,
                       const at::Tensor& bias, const at::Tensor&,
                       const at::Tensor&, c10::SymInt longest_q,
                       c10::SymInt longest_k, double dropout, bool causal,
                       std::optional<double>) {
  EXPECT_EQ(lse.item<double>(), 1);
  EXPECT_EQ(seed.item<double>(), 2);
  EXPECT_EQ(offset.item<double>(), 3);
  EXPECT_FALSE(bias.defined());
  EXPECT_EQ(longest_q, q.size(2));
  EXPECT_EQ(longest_k, k.size(2));
  EXPECT_EQ(dropout, 0);
  EXPECT_TRUE(causal);
  const Reference reference = ReferenceOf(q, k, v);
  EXPECT_LE(RelativeError(out, Like(reference.out(), q)), 2e-6);
  const AttentionInputs grad = reference.Backward(
      SwapTokensAndHeads(dout).reshape(reference.out().sizes()));
  return {Like(grad.q, q), Like(grad.k, k), Like(grad.v, v)};
}

TORCH_LIBRARY_IMPL(aten, CPU, m) {
  m.impl("_scaled_dot_product_cudnn_attention", &FakeForward);
  m.impl("_scaled_dot_product_cudnn_attention_backward", &FakeBackward);
}

TEST(CudnnTest, RowsAttendWithinThemselves) {
  at::manual_seed(1);
  AttentionPlan plan;
  plan.rows = 3;
  plan.length = 20;
  ExpectReference(
      plan, [](AttentionTape& tape) { return CudnnForward(tape); },
      [&](const at::Tensor& dout, const AttentionTape& tape) {
        return CudnnBackward(dout, plan, tape);
      });
}

}  // namespace
}  // namespace mpsd::attention
