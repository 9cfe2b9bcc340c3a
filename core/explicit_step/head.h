// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_EXPLICIT_STEP_HEAD_H_
#define MPSD_CORE_EXPLICIT_STEP_HEAD_H_

#include <ATen/core/Tensor.h>

#include "core/explicit_step/linear_group.h"
#include "core/explicit_step/options.h"
#include "core/model/head_loss.h"
#include "core/model/layers.h"

namespace mpsd::explicit_step {

struct HeadResult {
  at::Tensor sum;   // Σ −log softmax(l)[target], fp32 scalar
  at::Tensor grad;  // scale · d(sum)/dh, [n, hidden_size]
};

// The loss of n tokens under a frozen head, and its gradient, computed in one
// walk over pieces of rows. A piece has about 2^25 logits; the logits of all
// tokens never exist at once. Shapes: h [n, hidden_size], W [vocab,
// hidden_size], b [vocab], l and D [n, vocab], targets [n]; t, A and B̃ are
// those of `adapters`, the head's own LinearGroup.
// Forward:
//   l   = h Wᵀ + b + t B̃,  t = h Aᵀ           in fp32
//   sum = Σ −log softmax(l)[target]            over rows with a real target
// Backward, where sᵢ = scale for rows with a real target, else 0:
//   D  = s ∘ (softmax(l) − onehot(target))
//   dh = D W + dt A,  dt = D B̃ᵀ
//   dB̃ += tᵀ D,  dA += dtᵀ h
// Without adapters s multiplies dh instead of D, which is the same and cheaper.
// The caller keeps `buffer`, undefined at first, from call to call: on the CPU
// the logits lie in it, since the system would map a block of this size anew
// each time.
HeadResult HeadLoss(const at::Tensor& h, const model::Linear& head,
                    const LinearGroup& adapters, const at::Tensor& targets,
                    double scale, const Options& options, at::Tensor& buffer);

}  // namespace mpsd::explicit_step

#endif  // MPSD_CORE_EXPLICIT_STEP_HEAD_H_
