// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_ATTENTION_FLASH_CPU_H_
#define MPSD_CORE_ATTENTION_FLASH_CPU_H_

#include <ATen/core/Tensor.h>

#include "core/attention/attention_plan.h"
#include "core/attention/attention_tape.h"

namespace mpsd::attention {

// ATen's flash attention of the CPU, in any dtype. The kernel knows neither
// windows nor segments: the plan's window must be 0, and packed rows take one
// call a segment.
//
// Returns o [rows, length, heads, dim] of the tape's q, k and v; appends to the
// tape's lse.
at::Tensor FlashCpuForward(const AttentionPlan& plan, AttentionTape& tape);
// `dout` [tokens, heads · dim]. Reads the tape's out too.
AttentionInputs FlashCpuBackward(const at::Tensor& dout,
                                 const AttentionPlan& plan,
                                 const AttentionTape& tape);

}  // namespace mpsd::attention

#endif  // MPSD_CORE_ATTENTION_FLASH_CPU_H_
