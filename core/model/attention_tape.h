// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_MODEL_ATTENTION_TAPE_H_
#define MPSD_CORE_MODEL_ATTENTION_TAPE_H_

#include <ATen/core/Tensor.h>

#include <vector>

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

}  // namespace mpsd::attention

#endif  // MPSD_CORE_MODEL_ATTENTION_TAPE_H_
