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

// One micro-batch in the form that a model takes: views of StepInputs' buffers.
struct BatchInputs {
  // Language models. A batch without a label has only labels.count filled in.
  model::DecoderInputs decoder;
  model::LabelSelection labels;
  // Classifiers.
  model::ClassifierInputs classifier;
  at::Tensor targets;  // as SumClassLoss takes them; undefined: none
};

// Micro-batches on the device. One copy takes all integers there and one all
// floats, and nobody waits for the copies: on MPS the device would run dry
// while the host waits.
struct StepInputs {
  std::vector<BatchInputs> batches;
  // The host memory that the device copies from. It must live until the device
  // has been waited for (torch itself keeps it since 2.14 only).
  std::vector<at::Tensor> host;
};

// For language models. Rounds up the number of selected labels, so that few
// shapes occur. Where the device compiles and keeps a graph for each shape, to
// 16, 32, 64, 128, 192, 256, 384 … (powers of two and the middles between
// them); elsewhere to 16, 32, then multiples of 64.
StepInputs LanguageInputs(std::span<const data::Batch> batches,
                          const device::Device& device);

// For classifiers; `outputs` is how many numbers a row's target has.
StepInputs ClassInputs(std::span<const data::Batch> batches, int64_t outputs,
                       const device::Device& device);

// The first of `batches` that one upload takes: as many as have kUploadBytes of
// inputs together or less, and one in any case.
inline constexpr int64_t kUploadBytes = spec::kStepInputBytes;
std::span<const data::Batch> FirstUpload(std::span<const data::Batch> batches);

}  // namespace mpsd::train

#endif  // MPSD_CORE_TRAIN_INPUTS_H_
