// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_FAST_BLOCKED_ATTENTION_H_
#define MPSD_CORE_FAST_BLOCKED_ATTENTION_H_

#include <ATen/core/Tensor.h>

#include "core/fast/attention.h"

namespace mpsd::fast {

// Attention by blocks of queries over all keys that they see, in plain ATen
// calls: what MPS trains with, where no fused attention has a backward, and the
// CPU's backward, where the fused one is slower. The probabilities of one block
// exist at a time and are computed again in the backward. Layouts: see
// AttentionTape; `out` is laid out as q.
//
// PlanBlocks fills in the plan's blocks, its band and its zero. What hides keys
// of rows without segments is there once for all blocks: a band of `bands`, or
// made where that is null. Segments make a mask a block, and so do the products
// of MPS: kept while all together stay small (spec::kMostKeptMasks). Beyond
// that the former are made as they are used, and the latter are views of the
// band, added apart.
void PlanBlocks(const model::DecoderInputs& inputs, const HeadShape& shape,
                const Options& options, BandMasks* bands, AttentionPlan& plan);

at::Tensor BlockedForward(const AttentionPlan& plan, const HeadShape& shape,
                          const AttentionTape& tape);

struct BlockedGradients {
  at::Tensor q, k, v;  // laid out as the tape's
};
BlockedGradients BlockedBackward(const at::Tensor& dout,
                                 const AttentionPlan& plan,
                                 const HeadShape& shape, const Options& options,
                                 const AttentionTape& tape);

}  // namespace mpsd::fast

#endif  // MPSD_CORE_FAST_BLOCKED_ATTENTION_H_
