// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

#include "absl/status/status.h"
#include "core/data/loader.h"
#include "core/data/source.h"
#include "core/host/traits.h"
#include "core/spec/model_config.h"
#include "core/spec/train_spec.h"

namespace mpsd::data {

// How a job's rows become batches on its device, and how large these may be.
// Lengths are in tokens; an image has as many as the model makes of it.
class BatchShapes {
 public:
  // `spec` and `traits` must outlive this object. `device` names the device in
  // errors.
  BatchShapes(const spec::TrainSpec& spec, const spec::ModelConfig& config,
              const backend::Traits& traits, std::string device);

  // Rows of an optimizer step.
  int64_t step_rows() const;
  // Optimizer steps of the whole run.
  int64_t TotalSteps(int64_t steps_per_epoch) const;
  // The longest sample, cut at max_length and without padding.
  int64_t LongestSample(const Source& source) const;
  // The longest row that training on `train` computes, with padding.
  int64_t LongestRow(const Source& train) const;

  // InvalidArgument, with advice, if a micro-batch of `train`, or a row of one
  // of `others` (null: none), has more tokens than the device computes
  // correctly.
  absl::Status CheckDeviceLimits(
      const Source& train, std::initializer_list<const Source*> others) const;

  // The batches of training, `micro_batch_rows` rows at a time, which must
  // divide step_rows().
  LoaderOptions TrainOptions(int64_t micro_batch_rows) const;

  // The batches of an evaluation or a prediction, of as many rows as the job
  // says. If the device may run out of memory silently, a batch has no more
  // tokens than a training micro-batch, or than the device computes correctly.
  // The split does not change results: they are sums over rows, or keep the
  // rows' order.
  EvalLoader EvalBatches(const Source& source, const Source& train,
                         int64_t micro_batch_rows) const;

 private:
  Padding padding() const;
  int64_t PaddedLongest(const Source& source) const;
  absl::Status CheckTokens(int64_t rows, int64_t row_tokens) const;

  const spec::TrainSpec& spec_;
  const backend::Traits& traits_;
  const std::string device_;
  const int64_t image_tokens_;  // 0: the job has no images
};

}  // namespace mpsd::data
