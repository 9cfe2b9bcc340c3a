// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_FAST_HEAD_H_
#define MPSD_CORE_FAST_HEAD_H_

#include <ATen/core/Tensor.h>

#include "core/fast/linear_group.h"
#include "core/fast/options.h"
#include "core/model/head_loss.h"
#include "core/model/layers.h"

namespace mpsd::fast {

struct HeadResult {
  at::Tensor sum;  // of −log softmax(l)[target] over real targets, fp32 scalar
  at::Tensor grad;  // scale · d(sum)/dh, as h
};

// The loss of tokens' final hidden states h [n, hidden_size] under a frozen
// head, l = W h + b, with its gradient:
//   d(sum)/dh = (softmax(l) − onehot(target)) W
// computed beside it in pieces, of which each has some 2^25 logits. `adapters`
// is the group of the head alone: what hangs on it adds to l, and gets its
// gradient, times `scale`, too. `buffer`, undefined at first, is where logits
// lie on the CPU from call to call: so large a block is else mapped anew.
HeadResult HeadLoss(const at::Tensor& h, const model::Linear& head,
                    const LinearGroup& adapters, const at::Tensor& targets,
                    double scale, const Options& options, at::Tensor& buffer);

}  // namespace mpsd::fast

#endif  // MPSD_CORE_FAST_HEAD_H_
