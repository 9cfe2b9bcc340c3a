// SPDX-License-Identifier: Apache-2.0
#include "core/model/flash_cpu.h"

#include <ATen/ATen.h>

#include <cstdint>
#include <tuple>

#include "core/model/head_layout.h"
#include "core/base/check.h"

namespace mpsd::attention {
namespace {

// Takes the tokens of one segment out of [rows, length, heads, dim]: a view [1,
// size, heads, dim]. A segment is within one row, so the rows may be joined.
struct Segment {
  int64_t begin, size;
  at::Tensor operator()(const at::Tensor& x) const {
    return x.flatten(0, 1).narrow(0, begin, size).unsqueeze(0);
  }
};

template <typename Visit>
void ForEachSegment(const AttentionPlan& plan, const Visit& visit) {
  int64_t begin = 0;
  for (const int64_t size : plan.segments) {
    visit(Segment{begin, size});
    begin += size;
  }
  base::CheckEqual(begin, plan.rows * plan.length, "tokens of all segments");
}

// Attends within each row of [n, size, heads, dim]; appends to `lse`.
at::Tensor Attend(const AttentionInputs& x, std::vector<at::Tensor>& lse) {
  auto [out, sums] = at::_scaled_dot_product_flash_attention_for_cpu(
      SwapTokensAndHeads(x.q), SwapTokensAndHeads(x.k), SwapTokensAndHeads(x.v),
      /*dropout_p=*/0.0,
      /*is_causal=*/true);
  lse.push_back(sums);
  return SwapTokensAndHeads(out);
}

AttentionInputs AttendBackward(const at::Tensor& dout, const AttentionInputs& x,
                               const at::Tensor& out, const at::Tensor& lse) {
  auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      SwapTokensAndHeads(dout), SwapTokensAndHeads(x.q),
      SwapTokensAndHeads(x.k), SwapTokensAndHeads(x.v), SwapTokensAndHeads(out),
      lse,
      /*dropout_p=*/0.0, /*is_causal=*/true);
  return {.q = SwapTokensAndHeads(dq),
          .k = SwapTokensAndHeads(dk),
          .v = SwapTokensAndHeads(dv)};
}

}  // namespace

at::Tensor FlashCpuForward(const AttentionPlan& plan, AttentionTape& tape) {
  base::CheckEqual(plan.window, 0,
                   "the window of a flash attention on the CPU");
  if (plan.segments.empty()) {
    return Attend({tape.q, tape.k, tape.v}, tape.lse);
  }
  at::Tensor out = at::empty(tape.q.sizes(), tape.q.options());
  ForEachSegment(plan, [&](const Segment& of) {
    of(out).copy_(Attend({of(tape.q), of(tape.k), of(tape.v)}, tape.lse));
  });
  return out;
}

AttentionInputs FlashCpuBackward(const at::Tensor& dout,
                                 const AttentionPlan& plan,
                                 const AttentionTape& tape) {
  const int64_t dim = tape.q.size(-1);
  const at::Tensor d = plan.ByRow(dout, dim), out = plan.ByRow(tape.out, dim);
  if (plan.segments.empty()) {
    return AttendBackward(d, {tape.q, tape.k, tape.v}, out, tape.lse[0]);
  }
  AttentionInputs grad{.q = at::empty_like(tape.q),
                       .k = at::empty_like(tape.k),
                       .v = at::empty_like(tape.v)};
  size_t i = 0;
  ForEachSegment(plan, [&](const Segment& of) {
    base::CheckLess(i, tape.lse.size(), "a segment that went forward");
    const AttentionInputs part = AttendBackward(
        of(d), {of(tape.q), of(tape.k), of(tape.v)}, of(out), tape.lse[i++]);
    of(grad.q).copy_(part.q);
    of(grad.k).copy_(part.k);
    of(grad.v).copy_(part.v);
  });
  return grad;
}

}  // namespace mpsd::attention
