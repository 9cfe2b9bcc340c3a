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

// A micro-batch as a model takes it: views of StepInputs' buffers.
struct BatchInputs {
  // Of language models; without a label neither is filled in but labels.count.
  model::DecoderInputs decoder;
  model::LabelSelection labels;
  // Of classifiers.
  model::ClassifierInputs classifier;
  at::Tensor targets;  // as SumClassLoss takes them; undefined: no labels
};

// Micro-batches on the device. Their integers were copied there at once, and
// their floats, by copies that nobody waits for: on MPS a copy that is waited
// for lets the device run dry.
struct StepInputs {
  std::vector<BatchInputs> batches;
  // What the device reads from until it has been waited for: it must live as
  // long (torch keeps it by itself since 2.14 only).
  std::vector<at::Tensor> host;
};

// For language models. The number of selected labels is rounded up: where each
// distinct shape is a graph that is compiled and kept, to 16, 32, 64, 128, 192,
// 256, 384 … (powers of two and the middles between them), elsewhere to 16, 32,
// then multiples of 64.
StepInputs LanguageInputs(std::span<const data::Batch> batches,
                          const device::Device& device);

// For classifiers with `outputs` of each row.
StepInputs ClassInputs(std::span<const data::Batch> batches, int64_t outputs,
                       const device::Device& device);

// The first of `batches` whose inputs are kUploadBytes at most together, one at
// least: those of one upload.
inline constexpr int64_t kUploadBytes = spec::kStepInputBytes;
std::span<const data::Batch> FirstUpload(std::span<const data::Batch> batches);

}  // namespace mpsd::train

#endif  // MPSD_CORE_TRAIN_INPUTS_H_
