// SPDX-License-Identifier: Apache-2.0
#include "core/model/cudnn.h"

#include <ATen/ATen.h>

#include <cstdint>
#include <optional>
#include <tuple>

#include "core/model/head_layout.h"
#include "core/base/check.h"

namespace mpsd::attention {

at::Tensor CudnnForward(AttentionTape& tape) {
  auto [out, lse, starts_q, starts_k, longest_q, longest_k, seed, offset,
        debug] =
      at::_scaled_dot_product_cudnn_attention(
          SwapTokensAndHeads(tape.q), SwapTokensAndHeads(tape.k),
          SwapTokensAndHeads(tape.v),
          /*attn_bias=*/std::nullopt, /*compute_log_sumexp=*/true,
          /*dropout_p=*/0.0, /*is_causal=*/true);
  tape.lse = {lse};
  tape.random = seed;
  tape.unused = offset;
  return SwapTokensAndHeads(out);
}

AttentionInputs CudnnBackward(const at::Tensor& dout, const AttentionPlan& plan,
                              const AttentionTape& tape) {
  const int64_t dim = tape.q.size(-1);
  base::CheckEqual(tape.lse.size(), 1, "sums of the forward");
  auto [dq, dk, dv] = at::_scaled_dot_product_cudnn_attention_backward(
      SwapTokensAndHeads(plan.ByRow(dout, dim)), SwapTokensAndHeads(tape.q),
      SwapTokensAndHeads(tape.k), SwapTokensAndHeads(tape.v),
      SwapTokensAndHeads(plan.ByRow(tape.out, dim)), tape.lse[0], tape.random,
      tape.unused, /*attn_bias=*/at::Tensor(),
      /*cum_seq_q=*/at::Tensor(), /*cum_seq_k=*/at::Tensor(), plan.length,
      plan.length, /*dropout_p=*/0.0, /*is_causal=*/true);
  return {.q = SwapTokensAndHeads(dq),
          .k = SwapTokensAndHeads(dk),
          .v = SwapTokensAndHeads(dv)};
}

}  // namespace mpsd::attention
