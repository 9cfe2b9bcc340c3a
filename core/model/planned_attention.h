// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "core/model/attention_plan.h"

namespace mpsd::attention {

// q [rows, length, heads, dim]; k and v [rows, length, kv_heads, dim].
struct AttentionInputs {
  at::Tensor q, k, v;
};

// What a planned forward keeps for its backward. q, k and v have the shapes of
// AttentionInputs. If the forward is blocked they are ToBlockedLayout of these:
// q [rows, kv_heads, length, heads / kv_heads, dim] and k, v [rows, kv_heads,
// length, 1, dim].
struct AttentionTape {
  at::Tensor q, k, v;
  at::Tensor out;  // [tokens, heads · dim]
  // Log Σ exp(scores) of flash and cuDNN attention; one per segment on the CPU.
  std::vector<at::Tensor> lse;
  at::Tensor random, unused;  // outputs of CUDA's kernels for their backward
};

// Causal attention by the kernels of a plan, with a hand-written backward: no
// autograd graph. `shape` and `options` are those that made the plan.
//
// With the plan's scale s, o = softmax(s q kᵀ + mask) v for each head: [tokens,
// heads · dim]. Fills in `tape`, including o.
at::Tensor AttentionForward(const AttentionInputs& inputs,
                            const AttentionPlan& plan, const HeadShape& shape,
                            AttentionTape& tape);

// For each head, with p = softmax(s q kᵀ + mask):
//   dv = pᵀ do
//   ds = p ∘ (do vᵀ − rowsum(do ∘ o))
//   dq = s ds k,  dk = s dsᵀ q
// If the plan caps scores, s q kᵀ is c t with t = tanh(s q kᵀ / c), and ds has
// the factor 1 − t².
// dk and dv are summed over the query heads that share keys and values. `dout`
// is do, [tokens, heads · dim]; the result has the shapes of AttentionInputs.
AttentionInputs AttentionBackward(const at::Tensor& dout,
                                  const AttentionPlan& plan,
                                  const HeadShape& shape,
                                  const Options& options,
                                  const AttentionTape& tape);

// Attention block by block: a block of queries over all keys that the block
// sees, in plain ATen calls. Used on MPS, where no fused attention has a
// backward, and for the CPU's fp32 backward, where the fused one is slower.
// Only one block's probabilities exist at a time; the backward recomputes them.
// AttentionTape has the layouts; the results have the layout of q, k and v.
// PlanBlocks (attention_plan.h) chooses the blocks and makes their masks.
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

// ATen's flash attention on the CPU, in any dtype. The kernel supports neither
// windows nor segments: the plan's window must be 0, and packed rows take one
// call per segment.
//
// Returns o [rows, length, heads, dim] from the tape's q, k and v; appends to
// the tape's lse.
at::Tensor FlashCpuForward(const AttentionPlan& plan, AttentionTape& tape);
// `dout` [tokens, heads · dim]. Also reads the tape's out.
AttentionInputs FlashCpuBackward(const at::Tensor& dout,
                                 const AttentionPlan& plan,
                                 const AttentionTape& tape);

// CUDA's flash attention, in bf16 and fp16, with windows and segments. Packed
// rows are one sequence for the kernel, divided by the plan's segment_starts.
//
// Returns o from the tape's q, k and v, [rows, length, heads, dim] or, if rows
// are packed, [tokens, heads, dim]. Fills in the tape's lse, random and unused.
at::Tensor FlashCudaForward(const AttentionPlan& plan, AttentionTape& tape);
// `dout` [tokens, heads · dim]. Also reads the tape's out.
AttentionInputs FlashCudaBackward(const at::Tensor& dout,
                                  const AttentionPlan& plan,
                                  const AttentionTape& tape);

// cuDNN's attention on CUDA, in bf16 and fp16, for rows without packing or
// window: faster on the device than flash attention, but each call costs more.
//
// Returns o [rows, length, heads, dim] from the tape's q, k and v. Fills in the
// tape's lse, random and unused.
at::Tensor CudnnForward(const AttentionPlan& plan, AttentionTape& tape);
// `dout` [tokens, heads · dim]. Also reads the tape's out.
AttentionInputs CudnnBackward(const at::Tensor& dout, const AttentionPlan& plan,
                              const AttentionTape& tape);

}  // namespace mpsd::attention
