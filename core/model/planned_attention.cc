// SPDX-License-Identifier: Apache-2.0
#include "core/model/planned_attention.h"

#include <ATen/ATen.h>

#include "core/model/blocked_attention.h"
#include "core/model/cudnn.h"
#include "core/model/flash_cpu.h"
#include "core/model/flash_cuda.h"
#include "core/model/head_layout.h"

namespace mpsd::attention {
namespace {

// The blocked backward after a blocked forward: the tape has its layout.
AttentionInputs BackwardOfBlocks(const at::Tensor& dout,
                                 const AttentionPlan& plan,
                                 const HeadShape& shape, const Options& options,
                                 const AttentionTape& tape) {
  const BlockedGradients grad = BlockedBackward(
      ToBlockedLayout(plan.ByRow(dout, shape.dim), shape.kv_heads), plan, shape,
      options, tape);
  return {.q = FromBlockedLayout(grad.q),
          .k = FromBlockedLayout(grad.k),
          .v = FromBlockedLayout(grad.v)};
}

// The blocked backward after a fused forward. Each query head gets its own keys
// and values: threads then share more, equal pieces, which is worth more than
// the copies.
AttentionInputs BackwardByHeads(const at::Tensor& dout,
                                const AttentionPlan& plan,
                                const HeadShape& shape, const Options& options,
                                const AttentionTape& tape) {
  // For a single row a transposed view is the batch of heads: no copy.
  const auto by_head = [&](const at::Tensor& x) {
    return plan.rows == 1 ? SwapTokensAndHeads(x).unsqueeze(3)
                          : ToBlockedLayout(x, shape.heads);
  };
  AttentionTape each;
  each.q = by_head(tape.q);
  each.k = by_head(ForEachHead(tape.k, shape));
  each.v = by_head(ForEachHead(tape.v, shape));
  const BlockedGradients grad =
      BlockedBackward(by_head(plan.ByRow(dout, shape.dim)), plan,
                      EachWithKeys(shape), options, each);
  return {.q = FromBlockedLayout(grad.q),
          .k = FromEachHead(FromBlockedLayout(grad.k), shape),
          .v = FromEachHead(FromBlockedLayout(grad.v), shape)};
}

}  // namespace

at::Tensor AttentionForward(const AttentionInputs& inputs,
                            const AttentionPlan& plan, const HeadShape& shape,
                            AttentionTape& tape) {
  tape.lse.clear();
  const bool blocked = plan.forward == PlannedKernel::kBlocked;
  const auto kept = [&](const at::Tensor& x) {
    return blocked ? ToBlockedLayout(x, shape.kv_heads) : x;
  };
  tape.q = kept(inputs.q);
  tape.k = kept(inputs.k);
  tape.v = kept(inputs.v);
  at::Tensor out;
  switch (plan.forward) {
    case PlannedKernel::kBlocked:
      out = FromBlockedLayout(BlockedForward(plan, shape, tape));
      break;
    case PlannedKernel::kFlashCpu:
      out = FlashCpuForward(plan, tape);
      break;
    case PlannedKernel::kFlashCuda:
      out = FlashCudaForward(plan, tape);
      break;
    case PlannedKernel::kCudnn:
      out = CudnnForward(tape);
      break;
  }
  return tape.out = plan.Tokens(out);
}

AttentionInputs AttentionBackward(const at::Tensor& dout,
                                  const AttentionPlan& plan,
                                  const HeadShape& shape,
                                  const Options& options,
                                  const AttentionTape& tape) {
  switch (plan.backward) {
    case PlannedKernel::kBlocked:
      break;
    case PlannedKernel::kFlashCpu:
      return FlashCpuBackward(dout, plan, tape);
    case PlannedKernel::kFlashCuda:
      return FlashCudaBackward(dout, plan, tape);
    case PlannedKernel::kCudnn:
      return CudnnBackward(dout, plan, tape);
  }
  return plan.forward == PlannedKernel::kBlocked
             ? BackwardOfBlocks(dout, plan, shape, options, tape)
             : BackwardByHeads(dout, plan, shape, options, tape);
}

}  // namespace mpsd::attention
