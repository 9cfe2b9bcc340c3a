// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_MODEL_BLOCK_PLAN_H_
#define MPSD_CORE_MODEL_BLOCK_PLAN_H_

#include <ATen/core/Tensor.h>

#include "core/model/attention_plan.h"
#include "core/model/block_mask.h"
#include "core/model/attention_options.h"
#include "core/model/token_layout.h"

namespace mpsd::attention {

// Fills in the plan's blocks, band, zero and segment_ids, for
// blocked_attention.h. Without segments one band masks all blocks: it comes
// from `bands`, or is made anew if `bands` is null. Two cases need a mask per
// block: segments, and GEMMs that add the mask (MPS). Such masks are kept while
// all together stay within spec::kMostKeptMasks. Beyond that bound a segment's
// mask is made at each use, and a GEMM's mask is replaced by a view of the band
// that a separate pass adds.
void PlanBlocks(const TokenLayout& layout, const HeadShape& shape,
                const Options& options, BandMasks* bands, AttentionPlan& plan);

// The mask of a block of the plan, kept or made now, in the shape given at
// QueryBlock::mask.
at::Tensor MaskOf(const AttentionPlan& plan, const QueryBlock& block);

}  // namespace mpsd::attention

#endif  // MPSD_CORE_MODEL_BLOCK_PLAN_H_
