// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_MODEL_PLANNED_ATTENTION_H_
#define MPSD_CORE_MODEL_PLANNED_ATTENTION_H_

#include <ATen/core/Tensor.h>

#include "core/model/attention_plan.h"
#include "core/model/attention_tape.h"
#include "core/model/attention_options.h"

namespace mpsd::attention {

// Causal attention by the kernels of a plan, with a hand-written backward: no
// autograd graph. `shape` and `options` are those that made the plan.
//
// o = softmax(q kᵀ / sqrt(dim) + mask) v for each head: [tokens, heads · dim].
// Fills in `tape`, including o.
at::Tensor AttentionForward(const AttentionInputs& inputs,
                            const AttentionPlan& plan, const HeadShape& shape,
                            AttentionTape& tape);

// For each head, with p = softmax(q kᵀ / sqrt(dim) + mask):
//   dv = pᵀ do
//   ds = p ∘ (do vᵀ − rowsum(do ∘ o))
//   dq = ds k / sqrt(dim),  dk = dsᵀ q / sqrt(dim)
// dk and dv are summed over the query heads that share keys and values. `dout`
// is do, [tokens, heads · dim]; the result has the shapes of AttentionInputs.
AttentionInputs AttentionBackward(const at::Tensor& dout,
                                  const AttentionPlan& plan,
                                  const HeadShape& shape,
                                  const Options& options,
                                  const AttentionTape& tape);

}  // namespace mpsd::attention

#endif  // MPSD_CORE_MODEL_PLANNED_ATTENTION_H_
