// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_MODEL_BLOCKED_ATTENTION_H_
#define MPSD_CORE_MODEL_BLOCKED_ATTENTION_H_

#include <ATen/core/Tensor.h>

#include "core/model/attention_plan.h"
#include "core/model/attention_tape.h"
#include "core/model/attention_options.h"

namespace mpsd::attention {

// Attention block by block: a block of queries over all keys that the block
// sees, in plain ATen calls. Used on MPS, where no fused attention has a
// backward, and for the CPU's fp32 backward, where the fused one is slower.
// Only one block's probabilities exist at a time; the backward recomputes them.
// AttentionTape has the layouts; the results have the layout of q, k and v.
// PlanBlocks (block_plan.h) chooses the blocks and makes their masks.
// TiledAttention (core/model/attention.h) is the counterpart under
// autograd.
//
// Returns o in the layout of the tape's q.
at::Tensor BlockedForward(const AttentionPlan& plan, const HeadShape& shape,
                          const AttentionTape& tape);

struct BlockedGradients {
  at::Tensor q, k, v;  // in the layout of the tape's q, k and v
};
BlockedGradients BlockedBackward(const at::Tensor& dout,
                                 const AttentionPlan& plan,
                                 const HeadShape& shape, const Options& options,
                                 const AttentionTape& tape);

}  // namespace mpsd::attention

#endif  // MPSD_CORE_MODEL_BLOCKED_ATTENTION_H_
