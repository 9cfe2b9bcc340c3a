// SPDX-License-Identifier: Apache-2.0
#include "core/model/flash_cuda.h"

#include <ATen/ATen.h>

#include <cstdint>
#include <optional>
#include <tuple>

#include "core/base/check.h"

namespace mpsd::attention {
namespace {

// The kernel's arguments other than q, k and v, for forward and backward.
struct KernelArguments {
  bool packed;
  int64_t longest;  // tokens of the longest row or segment
  // How many keys before and after the query's own it sees; absent: all. The
  // kernel hides later keys itself, but with a window it needs both sides.
  std::optional<int64_t> left, right;

  // Packed tokens as [tokens, heads, dim], else unchanged.
  at::Tensor Shaped(const at::Tensor& x) const {
    return packed ? x.flatten(0, 1) : x;
  }
};

KernelArguments ArgumentsOf(const AttentionPlan& plan) {
  const bool packed = !plan.segments.empty();
  base::Check(!packed || plan.segment_starts.defined(),
              "packed rows have the starts of their segments");
  KernelArguments arguments{
      .packed = packed,
      .longest = packed ? plan.longest_segment : plan.length,
      .left = std::nullopt,
      .right = std::nullopt};
  if (plan.window > 0) {
    arguments.left = plan.window - 1;  // a window counts the query's own key
    arguments.right = 0;
  }
  return arguments;
}

}  // namespace

at::Tensor FlashCudaForward(const AttentionPlan& plan, AttentionTape& tape) {
  const KernelArguments a = ArgumentsOf(plan);
  std::optional<at::Tensor> starts;
  if (a.packed) starts = plan.segment_starts;
  auto [out, lse, random, unused, debug] = at::_flash_attention_forward(
      a.Shaped(tape.q), a.Shaped(tape.k), a.Shaped(tape.v), starts, starts,
      a.longest, a.longest, /*dropout_p=*/0.0, /*is_causal=*/true,
      /*return_debug_mask=*/false, /*scale=*/std::nullopt, a.left, a.right);
  tape.lse = {lse};
  tape.random = random;
  tape.unused = unused;
  return out;
}

AttentionInputs FlashCudaBackward(const at::Tensor& dout,
                                  const AttentionPlan& plan,
                                  const AttentionTape& tape) {
  const KernelArguments a = ArgumentsOf(plan);
  const int64_t dim = tape.q.size(-1);
  // The backward takes an undefined tensor where the forward takes nullopt.
  const at::Tensor starts = a.packed ? plan.segment_starts : at::Tensor();
  base::CheckEqual(tape.lse.size(), 1, "sums of the forward");
  auto [dq, dk, dv] = at::_flash_attention_backward(
      a.Shaped(plan.ByRow(dout, dim)), a.Shaped(tape.q), a.Shaped(tape.k),
      a.Shaped(tape.v), a.Shaped(plan.ByRow(tape.out, dim)), tape.lse[0],
      starts, starts, a.longest, a.longest, /*dropout_p=*/0.0,
      /*is_causal=*/true, tape.random, tape.unused, /*scale=*/std::nullopt,
      a.left, a.right);
  if (!a.packed) return {.q = dq, .k = dk, .v = dv};
  return {.q = plan.ByRow(dq, dim),
          .k = plan.ByRow(dk, dim),
          .v = plan.ByRow(dv, dim)};
}

}  // namespace mpsd::attention
