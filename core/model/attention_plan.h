// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_MODEL_ATTENTION_PLAN_H_
#define MPSD_CORE_MODEL_ATTENTION_PLAN_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "core/model/block_mask.h"
#include "core/model/head_layout.h"
#include "core/model/attention_options.h"
#include "core/model/token_layout.h"

namespace mpsd::attention {

// What computes a planned attention, forward or backward.
enum class PlannedKernel {
  kBlocked,    // core/model/blocked_attention.h
  kFlashCpu,   // core/model/flash_cpu.h
  kFlashCuda,  // core/model/flash_cuda.h
  kCudnn,      // core/model/cudnn.h
};
// "blocked", "flash", "flash" or "cudnn".
const char* NameOf(PlannedKernel kernel);

// Queries [begin, begin + count) of every row, and the keys that some of these
// queries may see: `keys` of them, from `first_key` to the last query's own.
struct QueryBlock {
  int64_t begin, count, first_key, keys;
  // Added to the scores: 0 or −inf. [1, count · heads / kv_heads, keys] if a
  // GEMM adds the mask; else [rows or 1, 1, count, 1, keys], broadcast over
  // heads. Undefined: made at each use from AttentionPlan::band and
  // segment_ids.
  at::Tensor mask;
};

// What the causal attention of one micro-batch shares among all layers with the
// same window.
struct AttentionPlan {
  PlannedKernel forward = PlannedKernel::kBlocked;
  PlannedKernel backward = PlannedKernel::kBlocked;
  int64_t rows = 0, length = 0, window = 0;
  // False: tokens are stored row by row. True: position by position, and row by
  // row within a position.
  bool by_position = false;
  std::vector<int64_t> segments;  // lengths; empty: one segment per row
  int64_t longest_segment = 0;
  at::Tensor segment_starts;  // int32 [segments + 1]; for packed kFlashCuda
  // Filled in by PlanBlocks if one of the kernels is kBlocked; else empty.
  std::vector<QueryBlock> blocks;
  // With blocks: a scalar summand for products without one.
  at::Tensor zero;
  // For making the masks of blocks that have none: BandMask, which hides keys
  // by distance only, and the segment of each token, int64 [rows, length].
  at::Tensor band, segment_ids;

  // [tokens, heads · dim] as a view [rows, length, heads, dim].
  at::Tensor ByRow(const at::Tensor& tokens, int64_t dim) const;
  // The inverse of ByRow; a view if `by_row` is stored in the tokens' order.
  at::Tensor Tokens(const at::Tensor& by_row) const;
  // q and k concatenated, [rows, length, heads + kv_heads, dim], stored in the
  // tokens' order.
  at::Tensor Join(const at::Tensor& q, const at::Tensor& k) const;
};

// Chooses how attention runs:
//
//   backend     inputs                                   forward  backward
//   MPS         all                                      blocked  blocked
//   CPU         a window shorter than the rows           blocked  blocked
//               fp32, no window, not packed              flash    blocked
//               else                                     flash    flash
//   CUDA        fp32, dim > 256 or no multiple of 8      blocked  blocked
//               no window, not packed, dim ≤ 128, q of   cudnn    cudnn
//               kMinForCudnn numbers or more
//               else                                     flash    flash
//
// The backend is Traits::fused_attention (kNone, kByRow, kByToken); the CPU's
// fp32 backward depends on Traits::slow_attention_backward, and its blocks are
// those of EachWithKeys(shape). `window` is that of AttentionMask. `bands`
// keeps masks for later plans; null: masks are not kept.
AttentionPlan PlanAttention(const TokenLayout& layout, int64_t window,
                            bool by_position, const HeadShape& shape,
                            const Options& options, BandMasks* bands = nullptr);

}  // namespace mpsd::attention

#endif  // MPSD_CORE_MODEL_ATTENTION_PLAN_H_
