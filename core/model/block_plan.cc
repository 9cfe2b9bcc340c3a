// SPDX-License-Identifier: Apache-2.0
#include "core/model/block_plan.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "core/base/check.h"
#include "core/spec/query_blocks.h"

namespace mpsd::attention {
namespace {

// The first key that a query from `begin` on may see: the start of the earliest
// segment that reaches into the block. Rounded down to a multiple of `step`, so
// that few shapes occur.
int64_t FirstKey(const AttentionPlan& plan, int64_t begin, int64_t step) {
  int64_t first = plan.segments.empty() ? 0 : begin;
  int64_t at = 0;
  for (const int64_t size : plan.segments) {
    const int64_t start = at % plan.length;
    if (start <= begin && begin < start + size) first = std::min(first, start);
    at += size;
  }
  if (plan.window > 0) first = std::max(first, begin - plan.window + 1);
  return first / step * step;
}

// An upper bound of the keys of any block of these rows, so that one band
// serves all plans.
int64_t WidestKeys(const AttentionPlan& plan, int64_t count) {
  if (plan.window == 0) return plan.length;
  return std::min(plan.length, plan.window + 2 * count);
}

// Makes a mask [rows or 1, count, keys] broadcast against scores [rows,
// kv_heads, count, group, keys].
at::Tensor ForAllHeads(const at::Tensor& mask) {
  return mask.unsqueeze(1).unsqueeze(3);
}

at::Tensor SegmentMask(const AttentionPlan& plan, const QueryBlock& b) {
  const at::Tensor& ids = plan.segment_ids;
  const at::Tensor others = ids.narrow(1, b.begin, b.count).unsqueeze(2) !=
                            ids.narrow(1, b.first_key, b.keys).unsqueeze(1);
  return ForAllHeads(
      CornerOf(plan.band, b.count, b.keys)
          .unsqueeze(0)
          .masked_fill(others, -std::numeric_limits<double>::infinity()));
}

// The mask of a block without segments. A GEMM that adds the mask saves a pass
// over the scores, but needs the mask's row repeated for each query head that
// shares the key and, on MPS, a contiguous mask. Such a mask is made only if
// `few` says that all blocks' masks together stay small.
at::Tensor DistanceMask(const at::Tensor& band_corner, int64_t group, bool few,
                        const Options& options) {
  const at::Tensor corner = band_corner.unsqueeze(0);
  const bool made = options.traits.masks_for_products;
  if (group == 1 && (!made || corner.is_contiguous())) return corner;
  if (!made || !few) return ForAllHeads(corner);
  return corner.unsqueeze(2)
      .expand({-1, -1, group, -1})
      .flatten(1, 2)
      .contiguous();
}

}  // namespace

at::Tensor MaskOf(const AttentionPlan& plan, const QueryBlock& block) {
  return block.mask.defined() ? block.mask : SegmentMask(plan, block);
}

void PlanBlocks(const TokenLayout& layout, const HeadShape& shape,
                const Options& options, BandMasks* bands, AttentionPlan& plan) {
  const int64_t count = spec::QueriesPerBlock(
      plan.rows, shape.heads, plan.length, options.traits.cached_pieces);
  base::CheckLess(0, count, "queries of a block");
  base::CheckEqual(shape.heads % shape.kv_heads, 0, "heads beyond groups");
  const int64_t group = shape.heads / shape.kv_heads;
  const at::TensorOptions numbers =
      at::device(layout.device).dtype(options.dtype);
  BandMasks none;
  plan.zero = at::zeros({}, numbers);
  plan.band = (bands == nullptr ? none : *bands)
                  .Get(count, WidestKeys(plan, count), plan.window, numbers);
  plan.segment_ids = layout.segment_ids;
  int64_t cells = 0;
  for (int64_t begin = 0; begin < plan.length; begin += count) {
    QueryBlock b;
    b.begin = begin;
    b.count = std::min(count, plan.length - begin);
    b.first_key = FirstKey(plan, begin, count);
    b.keys = begin + b.count - b.first_key;
    cells += plan.rows * b.count * b.keys;
    plan.blocks.push_back(std::move(b));
  }
  for (QueryBlock& b : plan.blocks) {
    if (!plan.segment_ids.defined()) {
      b.mask = DistanceMask(CornerOf(plan.band, b.count, b.keys), group,
                            cells / plan.rows * group <= spec::kMostKeptMasks,
                            options);
    } else if (cells <= spec::kMostKeptMasks) {
      b.mask = SegmentMask(plan, b);
    }
  }
}

}  // namespace mpsd::attention
