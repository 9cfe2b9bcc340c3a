// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_MODEL_FLASH_CPU_H_
#define MPSD_CORE_MODEL_FLASH_CPU_H_

#include <ATen/core/Tensor.h>

#include "core/model/attention_plan.h"
#include "core/model/attention_tape.h"

namespace mpsd::attention {

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

}  // namespace mpsd::attention

#endif  // MPSD_CORE_MODEL_FLASH_CPU_H_
