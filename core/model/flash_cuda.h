// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_MODEL_FLASH_CUDA_H_
#define MPSD_CORE_MODEL_FLASH_CUDA_H_

#include <ATen/core/Tensor.h>

#include "core/model/attention_plan.h"
#include "core/model/attention_tape.h"

namespace mpsd::attention {

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

}  // namespace mpsd::attention

#endif  // MPSD_CORE_MODEL_FLASH_CUDA_H_
