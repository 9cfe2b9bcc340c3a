// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "core/base/ignore_index.h"
#include "core/model/layers.h"
#include "core/spec/classification.h"

namespace mpsd::model {

// The tokens whose next token is a label. The host selects them, so that the
// device never synchronises. Padded with rows whose target is kIgnoreIndex, so
// that few shapes occur.
struct LabelSelection {
  at::Tensor rows;     // int64 [n], into the flattened [rows · length] tokens
  at::Tensor targets;  // int64 [n], the next token, or kIgnoreIndex
  int64_t count = 0;   // number of real targets
};

// Σ −log softmax(W h)[target] over the selected tokens, fp32 scalar.
//   hidden [rows, length, hidden_size], after the final norm.
// The logits of at most `chunk` tokens exist at a time, and none are saved: the
// forward also computes the gradients by `hidden` and, if the head is trained,
// by its weight. If the head carries an adapter or its bias is trained,
// autograd keeps the logits instead. The backward may run only once.
at::Tensor SumCrossEntropy(const at::Tensor& hidden, const Linear& head,
                           const LabelSelection& labels, int64_t chunk = 1024);

// −log softmax(W h)[target] of each selected token, fp32 [n], 0 without a real
// target. Autograd keeps all logits: for losses that weigh tokens by what the
// forward finds.
at::Tensor TokenLosses(const at::Tensor& hidden, const Linear& head,
                       const LabelSelection& labels, int64_t chunk = 1024);

// The numerator of the loss of classification, an fp32 scalar. Transformers'
// loss (5.23, loss/loss_utils.py, ForSequenceClassificationLoss) is this over
// the denominator below, one batch at a time.
//
//  type          targets                 numerator                  denominator
//  kSingleLabel  int64 [rows]            Σ −w[t] log softmax(z)[t]  Σ w[t]
//  kRegression   float [rows] or         Σ (z − t)²                 elements
//                [rows, num_labels]
//  kMultiLabel   float [rows,            Σ −w t log σ(z)            elements
//                num_labels]                 −(1 − t) log σ(−z)
//
// logits z: [rows, num_labels] in any dtype. `weights` w: fp32 [num_labels] on
// the device of the logits, undefined for ones (so that Σ w[t] is the number of
// rows); not used by a regression. They are CrossEntropyLoss(weight=w) and
// BCEWithLogitsLoss(pos_weight=w).
at::Tensor SumClassLoss(spec::ProblemType type, const at::Tensor& logits,
                        const at::Tensor& targets, const at::Tensor& weights);

}  // namespace mpsd::model
