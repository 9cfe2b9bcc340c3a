// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/ScalarType.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "core/device/device.h"

namespace mpsd::attention {

struct Options {
  // Select the kernels; the mathematics is the same. Normally the traits of the
  // device that computes; tests give the CPU another device's.
  device::Traits traits = {};
  at::ScalarType dtype = at::kFloat;  // of activations and frozen weights
};

// How the tokens of one micro-batch are arranged in rows, and which of them see
// each other.
struct TokenLayout {
  int64_t rows = 0, length = 0;
  at::Device device = at::kCPU;  // where attention runs
  at::Tensor segment_ids;  // int64 [rows, length] for packed rows, or undefined
  // For packed rows, on the host: SegmentLengths of segment_ids; else empty.
  std::vector<int64_t> segment_lengths = {};
};

// The lengths of the segments of all rows in order; each row's padding counts
// as a segment, so they add up to rows · length. `segment_ids` [rows, length]
// are on the CPU.
std::vector<int64_t> SegmentLengths(const at::Tensor& segment_ids);

// `heads` query heads, of which heads / kv_heads (a whole number) share the
// keys and values of one kv head.
struct HeadShape {
  int64_t heads, kv_heads, dim;
  double scale = 0;  // of the scores q kᵀ; 0: 1 / sqrt(dim)
  // c: scores are c · tanh(scale q kᵀ / c) before the mask; 0: not capped.
  double softcap = 0;
};

// The shape in which each query head has its own keys and values.
HeadShape EachWithKeys(const HeadShape& shape);

// Kernels take heads in different layouts. Each function converts a tensor by
// token, [rows, length, heads, dim], into one of them; its inverse converts the
// results back.
//
// [rows, heads, length, dim], a view; its own inverse. For ATen's attention.
at::Tensor SwapTokensAndHeads(const at::Tensor& x);

// [rows, kv_heads, length, heads / kv_heads, dim], contiguous: the query heads
// that share keys are rows of one matrix. For blocked attention.
at::Tensor ToBlockedLayout(const at::Tensor& x, int64_t kv_heads);
at::Tensor FromBlockedLayout(const at::Tensor& x);

// Keys or values repeated for every query head that shares them: [rows, length,
// heads, dim] from [rows, length, kv_heads, dim]. The inverse is the gradient:
// it sums over the query heads.
at::Tensor ForEachHead(const at::Tensor& x, const HeadShape& shape);
at::Tensor FromEachHead(const at::Tensor& x, const HeadShape& shape);

// The mask that hides keys by their distance from the query, [count, keys]. The
// queries are the last `count` of `keys` tokens. An entry is 0 if the query
// sees the key, and −inf for keys after the query and, with a window > 0, for
// keys `window` or more tokens before the query. The mask of any smaller block
// that ends with its last query's own key is a corner of this one.
at::Tensor BandMask(int64_t count, int64_t keys, int64_t window,
                    const at::TensorOptions& options);

// The lower right corner [count, keys] of a BandMask; a view.
at::Tensor CornerOf(const at::Tensor& band, int64_t count, int64_t keys);

// What computes a planned attention, forward or backward
// (core/model/planned_attention.h).
enum class PlannedKernel { kBlocked, kFlashCpu, kFlashCuda, kCudnn };
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
  double scale = 0, softcap = 0;  // of the scores
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
//   all         capped scores                            blocked  blocked
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
// those of EachWithKeys(shape). `window` is that of AttentionMask.
AttentionPlan PlanAttention(const TokenLayout& layout, int64_t window,
                            bool by_position, const HeadShape& shape,
                            const Options& options);

// Fills in the plan's blocks, band, zero and segment_ids, for
// BlockedForward. Without segments one band masks all blocks. Two cases need a
// mask per block: segments, and GEMMs that add the mask (MPS). Such masks are
// kept while all together stay within spec::kMostKeptMasks. Beyond that bound a
// segment's mask is made at each use, and a GEMM's mask is replaced by a view
// of the band that a separate pass adds.
void PlanBlocks(const TokenLayout& layout, const HeadShape& shape,
                const Options& options, AttentionPlan& plan);

// The mask of a block of the plan, kept or made now, in the shape given at
// QueryBlock::mask.
at::Tensor MaskOf(const AttentionPlan& plan, const QueryBlock& block);

}  // namespace mpsd::attention
