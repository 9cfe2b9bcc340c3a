// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <set>
#include <string>

#include "core/device/device.h"

namespace mpsd::attention {

// Decides which tokens a token sees: those of its own segment, at or before
// itself, and of these the nearest `window`, including itself (0: no limit).
// Causality hides right padding without a mask, since it comes after all real
// tokens.
struct AttentionMask {
  at::Tensor segments;  // int64 [rows, length]; undefined: one segment per row
  int64_t window = 0;
  // False: a token also sees later tokens, and `keys` says which are real.
  bool causal = true;
  at::Tensor keys = {};  // as made by PaddingMask; undefined: all are real
  double scale = 0;      // of the scores q kᵀ; 0: 1 / sqrt(head_dim)
  // As HeadShape::softcap; then TiledAttention computes on every device.
  double softcap = 0;
};

enum class AttentionKernel {
  kFused,  // ATen's scaled_dot_product_attention and its backward
  kTiled,  // TiledAttention below: plain ATen calls, no S×S matrix in memory
};

// The attention used under autograd: TiledAttention if the device has no fused
// attention.
inline AttentionKernel KernelFor(const device::Traits& traits) {
  return traits.attends_fused() ? AttentionKernel::kFused
                                : AttentionKernel::kTiled;
}

// The names of the attention kernels that ran, as CausalName returns them; in
// the explicit step, as in attention_plan.h.
struct AttentionRan {
  std::set<std::string> forward, backward;
  bool operator==(const AttentionRan&) const = default;
};

// The kernel that CausalAttention or BidirectionalAttention uses:
// "scaled_dot_product_attention" (ATen's choice of kernels), "tiled", or
// "plain", which keeps the whole matrix of probabilities.
const char* CausalName(AttentionKernel kernel, double softcap = 0);
const char* BidirectionalName(const at::Tensor& q, const at::Tensor& k,
                              double dropout, AttentionKernel kernel);

// softmax(scale q kᵀ + mask) v, causal.
//   q [rows, heads, length, head_dim]
//   k, v [rows, kv_heads, length, head_dim], heads a multiple of kv_heads
// Returns [rows, heads, length, head_dim] in q's dtype.
at::Tensor CausalAttention(const at::Tensor& q, const at::Tensor& k,
                           const at::Tensor& v, const AttentionMask& mask,
                           AttentionKernel kernel);

// The mask of right-padded rows, of which the first `lengths` [rows] of
// `length` tokens are real: 0 for real keys, −inf for padding, to be added to
// every query's scores. [rows, 1, 1, length] in `dtype`.
at::Tensor PaddingMask(const at::Tensor& lengths, int64_t length,
                       at::ScalarType dtype);

// softmax(q kᵀ / sqrt(head_dim) + keys) v: every query sees every real key.
//   q [rows, heads, queries, head_dim]
//   k, v [rows, heads, length, head_dim]
//   keys as made by PaddingMask, or undefined
// `dropout` is applied to the probabilities; on the CPU its masks are those of
// Transformers' sdpa path. TiledAttention has no dropout and as many queries as
// keys: in other cases kTiled computes the whole matrix of probabilities.
at::Tensor BidirectionalAttention(const at::Tensor& q, const at::Tensor& k,
                                  const at::Tensor& v, const at::Tensor& keys,
                                  double dropout, AttentionKernel kernel);

// CausalAttention or, with mask.causal false, BidirectionalAttention with an
// explicit forward and backward over tiles of `tile` queries by `tile` keys in
// fp32; saves q, k, v, the output and the log-sum-exp. Used on MPS under
// autograd: no torch release has a fused backward for MPS, and the composite
// one holds several rows × heads × S × S tensors.
// core/model/planned_attention.h has its counterpart in the explicit step.
at::Tensor TiledAttention(const at::Tensor& q, const at::Tensor& k,
                          const at::Tensor& v, const AttentionMask& mask,
                          int64_t tile = 256);

}  // namespace mpsd::attention
