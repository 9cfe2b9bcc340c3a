// SPDX-License-Identifier: Apache-2.0
#include "core/model/attention_plan.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/base/check.h"
#include "core/spec/job_layers.h"

namespace mpsd::attention {

std::vector<int64_t> SegmentLengths(const at::Tensor& segment_ids) {
  base::CheckEqual(segment_ids.dim(), 2, "dimensions of segment_ids");
  const at::Tensor ids = segment_ids.contiguous();
  const int64_t* id = ids.const_data_ptr<int64_t>();
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < ids.numel(); ++i) {
    if (i % ids.size(1) == 0 || id[i] != id[i - 1]) lengths.push_back(0);
    ++lengths.back();
  }
  return lengths;
}

HeadShape EachWithKeys(const HeadShape& shape) {
  HeadShape each = shape;
  each.kv_heads = shape.heads;
  return each;
}

at::Tensor SwapTokensAndHeads(const at::Tensor& x) { return x.transpose(1, 2); }

at::Tensor ToBlockedLayout(const at::Tensor& x, int64_t kv_heads) {
  base::CheckEqual(x.size(2) % kv_heads, 0, "heads beyond whole groups");
  const int64_t group = x.size(2) / kv_heads;
  // Each block is a batch of GEMMs: one matrix per row and kv head, one copy
  // here.
  return x.unflatten(2, {kv_heads, group})
      .permute({0, 2, 1, 3, 4})
      .contiguous();
}

at::Tensor FromBlockedLayout(const at::Tensor& x) {
  return x.permute({0, 2, 1, 3, 4}).flatten(/*start_dim=*/2, /*end_dim=*/3);
}

at::Tensor ForEachHead(const at::Tensor& x, const HeadShape& shape) {
  const int64_t group = shape.heads / shape.kv_heads;
  if (group == 1) return x;
  return x.unsqueeze(3).expand({-1, -1, -1, group, -1}).flatten(2, 3);
}

at::Tensor FromEachHead(const at::Tensor& x, const HeadShape& shape) {
  const int64_t group = shape.heads / shape.kv_heads;
  return group == 1 ? x : x.unflatten(2, {shape.kv_heads, group}).sum(3);
}

at::Tensor BandMask(int64_t count, int64_t keys, int64_t window,
                    const at::TensorOptions& options) {
  const at::TensorOptions integers = options.dtype(at::kInt);
  const at::Tensor distance =
      at::arange(keys - count, keys, integers).unsqueeze(1) -
      at::arange(keys, integers).unsqueeze(0);
  at::Tensor hidden = distance < 0;
  if (window > 0) hidden = hidden.logical_or(distance >= window);
  return at::zeros(hidden.sizes(), options)
      .masked_fill_(hidden, -std::numeric_limits<double>::infinity());
}

at::Tensor CornerOf(const at::Tensor& band, int64_t count, int64_t keys) {
  const int64_t above = band.size(0) - count, before = band.size(1) - keys;
  base::CheckAtMost(0, above, "rows of a band above a block");
  base::CheckAtMost(0, before, "keys of a band before a block");
  const at::Tensor rows = above > 0 ? band.narrow(0, above, count) : band;
  return before > 0 ? rows.narrow(1, before, keys) : rows;
}

namespace {

using backend::FusedAttention;

// Below this many numbers of q, cuDNN's attention costs more time on the host
// than it saves on the device.
constexpr int64_t kMinForCudnn = int64_t{3} << 20;

// Whether CUDA's flash attention has a kernel for these heads in this dtype.
bool IsForFlash(const HeadShape& shape, const Options& options) {
  return options.dtype != at::kFloat && shape.dim % 8 == 0 && shape.dim <= 256;
}

// Whether cuDNN's attention supports this, given IsForFlash, and is worth it.
bool IsForCudnn(const AttentionPlan& plan, const HeadShape& shape) {
  return plan.window == 0 && plan.segments.empty() && shape.dim <= 128 &&
         plan.rows * plan.length * shape.heads * shape.dim >= kMinForCudnn;
}

// Whether the forward is fused and the backward blocked: in fp32, where ATen's
// backward on the CPU is slower. In bf16 both backwards are equally slow, but
// ATen's keeps more of the scores' bits.
bool OnlyBackwardByBlocks(const AttentionPlan& plan, const Options& options) {
  return options.traits.slow_attention_backward &&
         options.dtype == at::kFloat && plan.segments.empty();
}

// The table of PlanAttention, row by row.
void ChooseKernels(const HeadShape& shape, const Options& options,
                   AttentionPlan& plan) {
  using Kernel = PlannedKernel;
  const auto choose = [&plan](Kernel forward, Kernel backward) {
    plan.forward = forward;
    plan.backward = backward;
  };
  if (shape.softcap > 0) return choose(Kernel::kBlocked, Kernel::kBlocked);
  switch (options.traits.fused_attention) {
    case FusedAttention::kNone:
      return choose(Kernel::kBlocked, Kernel::kBlocked);
    case FusedAttention::kByRow:
      if (plan.window > 0) return choose(Kernel::kBlocked, Kernel::kBlocked);
      if (OnlyBackwardByBlocks(plan, options)) {
        return choose(Kernel::kFlashCpu, Kernel::kBlocked);
      }
      return choose(Kernel::kFlashCpu, Kernel::kFlashCpu);
    case FusedAttention::kByToken:
      if (!IsForFlash(shape, options)) {
        return choose(Kernel::kBlocked, Kernel::kBlocked);
      }
      if (IsForCudnn(plan, shape)) {
        return choose(Kernel::kCudnn, Kernel::kCudnn);
      }
      return choose(Kernel::kFlashCuda, Kernel::kFlashCuda);
  }
}

// The start of each segment among all tokens, and the end of the last one.
at::Tensor StartsOf(const std::vector<int64_t>& segments, at::Device device) {
  std::vector<int32_t> starts = {0};
  for (const int64_t size : segments) {
    starts.push_back(starts.back() + static_cast<int32_t>(size));
  }
  return at::tensor(starts, at::kInt).to(device);
}

}  // namespace

const char* NameOf(PlannedKernel kernel) {
  switch (kernel) {
    case PlannedKernel::kBlocked:
      return "blocked";
    case PlannedKernel::kFlashCpu:
    case PlannedKernel::kFlashCuda:
      return "flash";
    case PlannedKernel::kCudnn:
      return "cudnn";
  }
  return "";
}

at::Tensor AttentionPlan::ByRow(const at::Tensor& tokens, int64_t dim) const {
  base::CheckEqual(tokens.size(0), rows * length, "tokens and the plan's");
  return by_position ? tokens.view({length, rows, -1, dim}).transpose(0, 1)
                     : tokens.view({rows, length, -1, dim});
}

at::Tensor AttentionPlan::Tokens(const at::Tensor& by_row) const {
  const at::Tensor x = by_position ? by_row.transpose(0, 1) : by_row;
  return x.reshape({rows * length, -1});
}

at::Tensor AttentionPlan::Join(const at::Tensor& q, const at::Tensor& k) const {
  if (!by_position) return at::cat({q, k}, 2);
  // The result of cat is contiguous: with the position as its first dimension
  // the tokens are stored position by position.
  return at::cat({q.transpose(0, 1), k.transpose(0, 1)}, 2).transpose(0, 1);
}

AttentionPlan PlanAttention(const TokenLayout& layout, int64_t window,
                            bool by_position, const HeadShape& shape,
                            const Options& options) {
  base::CheckLess(0, layout.length, "tokens of a row");
  AttentionPlan plan;
  plan.rows = layout.rows;
  plan.length = layout.length;
  plan.scale = shape.scale > 0 ? shape.scale : 1 / std::sqrt(shape.dim);
  plan.softcap = shape.softcap;
  plan.by_position = by_position;
  // A window that hides nothing is dropped: more kernels then support the rows.
  plan.window = window < plan.length ? window : 0;
  plan.segments = layout.segment_lengths;
  if (!plan.segments.empty()) {
    plan.longest_segment =
        *std::max_element(plan.segments.begin(), plan.segments.end());
  }
  ChooseKernels(shape, options, plan);
  if (plan.forward == PlannedKernel::kBlocked) {
    PlanBlocks(layout, shape, options, plan);
  } else if (plan.backward == PlannedKernel::kBlocked) {
    PlanBlocks(layout, EachWithKeys(shape), options, plan);
  }
  if (plan.forward == PlannedKernel::kFlashCuda && !plan.segments.empty()) {
    plan.segment_starts = StartsOf(plan.segments, layout.device);
  }
  return plan;
}

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

// An upper bound of the keys of any block of these rows: one band serves all.
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
                const Options& options, AttentionPlan& plan) {
  const int64_t count = spec::QueriesPerBlock(
      plan.rows, shape.heads, plan.length, options.traits.cached_pieces);
  base::CheckLess(0, count, "queries of a block");
  base::CheckEqual(shape.heads % shape.kv_heads, 0, "heads beyond groups");
  const int64_t group = shape.heads / shape.kv_heads;
  const at::TensorOptions numbers =
      at::device(layout.device).dtype(options.dtype);
  plan.zero = at::zeros({}, numbers);
  plan.band = BandMask(count, WidestKeys(plan, count), plan.window, numbers);
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
