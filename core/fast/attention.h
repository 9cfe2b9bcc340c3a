// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_FAST_ATTENTION_H_
#define MPSD_CORE_FAST_ATTENTION_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "core/fast/block_mask.h"
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
  // Added to scores: 0 or −inf, [1, count · heads / kv_heads, keys] where a
  // product adds it, else [rows or 1, 1, count, 1, keys], the heads being left
  // out; undefined: see AttentionPlan::band.
  at::Tensor mask;
};

// What one micro-batch's causal attention has in common over all layers of one
// window.
struct AttentionPlan {
  int64_t rows = 0, length = 0, window = 0;
  // Whether the step's tokens lie position by position (and there row by row),
  // not row by row.
  bool by_position = false;
  std::vector<int64_t> segments;  // lengths; empty: one a row
  at::Tensor segment_starts;      // int32 [segments + 1], for CUDA
  int64_t longest_segment = 0;
  // For MPS, on the CPU with a window, on CUDA in fp32 and for odd heads; for
  // the CPU's backward in fp32, as if no heads had keys in common.
  std::vector<QueryBlock> blocks;
  at::Tensor zero;  // with blocks: a scalar for products that add nothing
  // Of which blocks without a mask get it: the mask by distance alone, see
  // BandMask, and the segment of each token.
  at::Tensor band, segment_ids;

  // [tokens, heads · dim] as a view [rows, length, heads, dim] and back, which
  // is a view of what lies as the tokens do.
  at::Tensor ByRow(const at::Tensor& tokens, int64_t dim) const;
  at::Tensor Tokens(const at::Tensor& by_row) const;
  // Of q and k, by row, one tensor, which lies as the tokens do.
  at::Tensor Join(const at::Tensor& q, const at::Tensor& k) const;
};

// `window` as model::AttentionMask has it. `bands` may be null: nothing is kept
// for the next plan.
AttentionPlan PlanAttention(const model::DecoderInputs& inputs, int64_t window,
                            bool by_position, const HeadShape& shape,
                            const Options& options, BandMasks* bands = nullptr);

// The kernels that a plan runs, by name: "flash", "cudnn" or "blocked".
struct AttentionKernels {
  const char *forward, *backward;
};
AttentionKernels KernelsOf(const AttentionPlan& plan, const HeadShape& shape,
                           const Options& options);

// What the backward needs. q [rows, length, heads, dim], k and v with
// kv_heads; by blocks instead q [rows, kv_heads, length, heads / kv_heads, dim]
// and k, v [rows, kv_heads, length, 1, dim], contiguous.
struct AttentionTape {
  at::Tensor q, k, v;
  at::Tensor out;               // [tokens, heads · dim]
  std::vector<at::Tensor> lse;  // of flash attention, by segment on the CPU
  at::Tensor random, unused;    // of CUDA's
};

// q [rows, length, heads, dim]; k and v [rows, length, kv_heads, dim].
struct AttentionInputs {
  at::Tensor q, k, v;
};

// softmax(q kᵀ / sqrt(dim) + mask) v: [tokens, heads · dim], kept as tape.out
// beside what else the backward needs.
at::Tensor AttentionForward(const AttentionInputs& inputs,
                            const AttentionPlan& plan, const HeadShape& shape,
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
