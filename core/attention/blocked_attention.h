// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_ATTENTION_BLOCKED_ATTENTION_H_
#define MPSD_CORE_ATTENTION_BLOCKED_ATTENTION_H_

#include <ATen/core/Tensor.h>

#include "core/attention/attention_plan.h"

namespace mpsd::attention {

// Attention block by block: a block of queries over all keys that the block
// sees, in plain ATen calls. MPS trains with this attention, since no fused one
// has a backward on MPS. The CPU runs its fp32 backward by it, since the fused
// backward is slower. Only one block's probabilities exist at a time; the
// backward computes them again. AttentionTape has the layouts; the results are
// laid out as q, k and v. TiledAttention (core/attention/attention.h) is the
// counterpart under autograd.
//
// PlanBlocks fills in the plan's blocks, band, zero and segment_ids. Without
// segments one band masks all blocks: it comes from `bands`, or is made anew
// where `bands` is null. Two cases need a mask a block: segments, and GEMMs
// that add the mask on their way (MPS). Such masks are kept while all together
// stay within spec::kMostKeptMasks. Beyond that bound a segment's mask is made
// at each use, and a GEMM's mask is replaced by a view of the band that a
// separate pass adds.
void PlanBlocks(const TokenLayout& layout, const HeadShape& shape,
                const Options& options, BandMasks* bands, AttentionPlan& plan);

at::Tensor BlockedForward(const AttentionPlan& plan, const HeadShape& shape,
                          const AttentionTape& tape);

struct BlockedGradients {
  at::Tensor q, k, v;  // laid out as q, k and v of the tape
};
BlockedGradients BlockedBackward(const at::Tensor& dout,
                                 const AttentionPlan& plan,
                                 const HeadShape& shape, const Options& options,
                                 const AttentionTape& tape);

}  // namespace mpsd::attention

#endif  // MPSD_CORE_ATTENTION_BLOCKED_ATTENTION_H_
