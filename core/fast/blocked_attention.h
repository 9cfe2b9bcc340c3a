// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_FAST_BLOCKED_ATTENTION_H_
#define MPSD_CORE_FAST_BLOCKED_ATTENTION_H_

#include <ATen/core/Tensor.h>

#include <vector>

#include "core/fast/attention.h"

namespace mpsd::fast {

// Attention by blocks of queries over all keys that they see, in plain ATen
// calls: what MPS trains with, where no fused attention has a backward, and the
// CPU's backward, where the fused one is slower. The probabilities of one block
// exist at a time and are computed again in the backward. Layouts: see
// AttentionTape; `out` is laid out as q.
std::vector<QueryBlock> PlanBlocks(const model::DecoderInputs& inputs,
                                   const AttentionPlan& plan,
                                   const HeadShape& shape,
                                   const Options& options);

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
