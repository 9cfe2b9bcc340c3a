// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_MODEL_CLASS_LOSS_H_
#define MPSD_CORE_MODEL_CLASS_LOSS_H_

#include <ATen/core/Tensor.h>

#include "core/spec/classification.h"

namespace mpsd::model {

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

#endif  // MPSD_CORE_MODEL_CLASS_LOSS_H_
