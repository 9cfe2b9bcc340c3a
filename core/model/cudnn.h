// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_MODEL_CUDNN_H_
#define MPSD_CORE_MODEL_CUDNN_H_

#include <ATen/core/Tensor.h>

#include "core/model/attention_plan.h"
#include "core/model/attention_tape.h"

namespace mpsd::attention {

// cuDNN's attention on CUDA, in bf16 and fp16, for rows without packing or
// window: faster on the device than flash attention, but each call costs more.
//
// Returns o [rows, length, heads, dim] from the tape's q, k and v. Fills in the
// tape's lse, random and unused.
at::Tensor CudnnForward(AttentionTape& tape);
// `dout` [tokens, heads · dim]. Also reads the tape's out.
AttentionInputs CudnnBackward(const at::Tensor& dout, const AttentionPlan& plan,
                              const AttentionTape& tape);

}  // namespace mpsd::attention

#endif  // MPSD_CORE_MODEL_CUDNN_H_
