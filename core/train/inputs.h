// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_TRAIN_INPUTS_H_
#define MPSD_CORE_TRAIN_INPUTS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "core/data/batch.h"
#include "core/device/device.h"
#include "core/model/classifier.h"
#include "core/model/decoder.h"
#include "core/model/head_loss.h"
#include "core/spec/memory_estimate.h"

namespace mpsd::train {

// One micro-batch in the model's form: views of StepInputs' buffers.
struct BatchInputs {
  // Language models. A batch without a label has only labels.count filled in.
  model::DecoderInputs decoder;
  model::LabelSelection labels;
  // Classifiers.
  model::ClassifierInputs classifier;
  at::Tensor targets;  // in SumClassLoss's form; undefined: none
};

// Micro-batches on the device. One copy transfers all integers and one all
// floats, and the host does not wait for them: on MPS the device would run out
// of work meanwhile.
struct StepInputs {
  std::vector<BatchInputs> batches;
  // The host memory that the device copies from. It must exist until the host
  // has waited for the device (torch itself keeps it only since 2.14).
  std::vector<at::Tensor> host;
};

// For language models. Rounds up the number of selected labels, so that few
// shapes occur. If the device compiles and keeps a graph per shape, to 16, 32,
// 64, 128, 192, 256, 384 … (powers of two and the midpoints between them);
// otherwise to 16, 32, then multiples of 64.
StepInputs LanguageInputs(std::span<const data::Batch> batches,
                          const device::Device& device);

// For classifiers; `outputs` is the number of values in a row's target.
StepInputs ClassInputs(std::span<const data::Batch> batches, int64_t outputs,
                       const device::Device& device);

// The first of `batches` for one upload: as many as have at most kUploadBytes
// of inputs together, and at least one.
inline constexpr int64_t kUploadBytes = spec::kStepInputBytes;
std::span<const data::Batch> FirstUpload(std::span<const data::Batch> batches);

}  // namespace mpsd::train

#endif  // MPSD_CORE_TRAIN_INPUTS_H_
