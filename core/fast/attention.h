// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_FAST_ATTENTION_H_
#define MPSD_CORE_FAST_ATTENTION_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "core/fast/options.h"
#include "core/model/decoder.h"

namespace mpsd::fast {

struct HeadShape {
  int64_t heads, kv_heads, dim;
};

// Queries [begin, begin + count) of every row and the keys, from `first_key` to
// the last query, that some of them may see.
struct QueryBlock {
  int64_t begin, count, first_key, keys;
  // Added to scores: 0 or −inf, [rows or 1, 1, count · group, keys].
  at::Tensor mask;
};

// What one micro-batch's causal attention has in common over all layers of one
// window.
struct AttentionPlan {
  int64_t rows = 0, length = 0, window = 0;
  std::vector<int64_t> segments;  // lengths; empty: one a row
  at::Tensor segment_starts;      // int32 [segments + 1], for CUDA
  int64_t longest_segment = 0;
  std::vector<QueryBlock> blocks;  // for MPS, and on the CPU with a window
};

// `window` as model::AttentionMask has it.
AttentionPlan PlanAttention(const model::DecoderInputs& inputs, int64_t window,
                            const HeadShape& shape, const Options& options);

// What the backward needs. q [rows, length, heads, dim], k and v with
// kv_heads; by blocks instead q [rows, kv_heads, length, heads / kv_heads, dim]
// and k, v [rows, kv_heads, length, dim], contiguous.
struct AttentionTape {
  at::Tensor q, k, v;
  at::Tensor out;               // [tokens, heads · dim]
  std::vector<at::Tensor> lse;  // of flash attention, by segment on the CPU
  at::Tensor random, unused;    // of CUDA's
};

// By token: q [rows, length, heads, dim], by blocks with the heads as
// [kv_heads, heads / kv_heads]; k and v [rows, length, kv_heads, dim].
struct AttentionInputs {
  at::Tensor q, k, v;
  at::Tensor qk;  // q and k, where one tensor holds both; else undefined
};
// Takes v [tokens, kv_heads · dim] into the tape and makes its tensors for the
// rotated q and k: returns views of them, to be filled.
AttentionInputs PrepareAttention(const at::Tensor& v, const AttentionPlan& plan,
                                 const HeadShape& shape, const Options& options,
                                 AttentionTape& tape);

// softmax(q kᵀ / sqrt(dim) + mask) v of what the inputs hold: [tokens,
// heads · dim], kept as tape.out.
at::Tensor AttentionForward(const AttentionPlan& plan, const HeadShape& shape,
                            const Options& options, AttentionTape& tape);

// With p the probabilities: dv = pᵀ do, ds = p ∘ (do vᵀ − rowsum(do ∘ o)),
// dq = ds k / sqrt(dim), dk = dsᵀ q / sqrt(dim).
AttentionInputs AttentionBackward(const at::Tensor& dout,
                                  const AttentionPlan& plan,
                                  const HeadShape& shape,
                                  const Options& options,
                                  const AttentionTape& tape);

}  // namespace mpsd::fast

#endif  // MPSD_CORE_FAST_ATTENTION_H_
