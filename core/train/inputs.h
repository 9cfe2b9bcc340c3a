// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_TRAIN_INPUTS_H_
#define MPSD_CORE_TRAIN_INPUTS_H_

#include <ATen/core/Tensor.h>

#include "core/data/batch.h"
#include "core/model/classifier.h"
#include "core/model/decoder.h"
#include "core/model/head_loss.h"

namespace mpsd::train {

// A micro-batch as a language model takes it.
struct ModelInputs {
  model::DecoderInputs decoder;
  model::LabelSelection labels;
};

// Builds them on the host and copies them to `device`. The number of selected
// labels is rounded up to a bucket (16, 32, 64, then multiples of 64): each
// distinct shape is a graph that MPS compiles and keeps.
ModelInputs MakeInputs(const data::Batch& batch, at::Device device);

// A micro-batch as a classifier takes it.
struct ClassificationInputs {
  model::ClassifierInputs model;
  at::Tensor targets;  // as SumClassLoss takes them; undefined: no labels
};

// `outputs` of each row.
ClassificationInputs MakeClassificationInputs(const data::Batch& batch,
                                              int64_t outputs,
                                              at::Device device);

}  // namespace mpsd::train

#endif  // MPSD_CORE_TRAIN_INPUTS_H_
