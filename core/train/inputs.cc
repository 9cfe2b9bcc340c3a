// SPDX-License-Identifier: Apache-2.0
#include "core/train/inputs.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

namespace mpsd::train {
namespace {

at::Tensor ToDevice(const std::vector<int64_t>& values, at::IntArrayRef shape,
                    at::Device device) {
  // clone(): the copy to a device may read the host memory later.
  return at::from_blob(const_cast<int64_t*>(values.data()), shape, at::kLong)
      .clone()
      .to(device);
}

at::Tensor ToDevice(const std::vector<float>& values, at::IntArrayRef shape,
                    at::Device device) {
  return at::from_blob(const_cast<float*>(values.data()), shape, at::kFloat)
      .clone()
      .to(device);
}

int64_t RoundUp(int64_t n) {
  for (int64_t small : {16, 32}) {
    if (n <= small) return small;
  }
  return (n + 63) / 64 * 64;
}

}  // namespace

ModelInputs MakeInputs(const data::Batch& batch, at::Device device) {
  // The output at token i predicts token i + 1 of the same segment.
  std::vector<int64_t> rows, targets;
  for (int64_t r = 0; r < batch.rows; ++r) {
    for (int64_t i = 0; i + 1 < batch.length; ++i) {
      const int64_t at = r * batch.length + i;
      if (batch.labels[at + 1] == data::kIgnoreIndex) continue;
      rows.push_back(at);
      targets.push_back(batch.labels[at + 1]);
    }
  }
  ModelInputs inputs;
  inputs.labels.count = static_cast<int64_t>(rows.size());
  const int64_t padded = RoundUp(inputs.labels.count);
  rows.resize(padded, 0);
  targets.resize(padded, model::LabelSelection::kNoTarget);
  inputs.labels.rows = ToDevice(rows, {padded}, device);
  inputs.labels.targets = ToDevice(targets, {padded}, device);
  const std::vector<int64_t> shape = {batch.rows, batch.length};
  inputs.decoder.input_ids = ToDevice(batch.input_ids, shape, device);
  inputs.decoder.position_ids = ToDevice(batch.position_ids, shape, device);
  if (batch.packed) {
    inputs.decoder.segment_ids = ToDevice(batch.segment_ids, shape, device);
    inputs.decoder.segment_lengths = model::SegmentLengths(
        ToDevice(batch.segment_ids, shape, at::kCPU));
  }
  return inputs;
}

ClassificationInputs MakeClassificationInputs(const data::Batch& batch,
                                              int64_t outputs,
                                              at::Device device) {
  ClassificationInputs inputs;
  model::ClassifierInputs& m = inputs.model;
  if (!batch.pixels.empty()) {
    m.pixels = ToDevice(batch.pixels,
                        {batch.rows, batch.channels, batch.height, batch.width},
                        device);
  } else {
    const std::vector<int64_t> shape = {batch.rows, batch.length};
    m.input_ids = ToDevice(batch.input_ids, shape, device);
    m.lengths = ToDevice(batch.lengths, {batch.rows}, device);
    if (!batch.token_type_ids.empty()) {
      m.token_type_ids = ToDevice(batch.token_type_ids, shape, device);
    }
    m.padded = std::any_of(batch.lengths.begin(), batch.lengths.end(),
                           [&](int64_t n) { return n < batch.length; });
  }
  if (!batch.classes.empty()) {
    inputs.targets = ToDevice(batch.classes, {batch.rows}, device);
  } else if (!batch.targets.empty()) {
    inputs.targets = ToDevice(batch.targets, {batch.rows, outputs}, device);
  }
  return inputs;
}

}  // namespace mpsd::train
