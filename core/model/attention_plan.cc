// SPDX-License-Identifier: Apache-2.0
#include "core/model/attention_plan.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

#include "core/model/block_plan.h"
#include "core/base/check.h"

namespace mpsd::attention {
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
                            const Options& options, BandMasks* bands) {
  base::CheckLess(0, layout.length, "tokens of a row");
  AttentionPlan plan;
  plan.rows = layout.rows;
  plan.length = layout.length;
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
    PlanBlocks(layout, shape, options, bands, plan);
  } else if (plan.backward == PlannedKernel::kBlocked) {
    PlanBlocks(layout, EachWithKeys(shape), options, bands, plan);
  }
  if (plan.forward == PlannedKernel::kFlashCuda && !plan.segments.empty()) {
    plan.segment_starts = StartsOf(plan.segments, layout.device);
  }
  return plan;
}

}  // namespace mpsd::attention
