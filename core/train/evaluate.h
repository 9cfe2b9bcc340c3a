// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_TRAIN_EVALUATE_H_
#define MPSD_CORE_TRAIN_EVALUATE_H_

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "core/data/loader.h"
#include "core/device/device.h"
#include "core/report/metrics.h"
#include "core/report/predictions.h"
#include "core/model/network.h"
#include "core/optim/trainable.h"
#include "core/train/task_pipeline.h"

namespace mpsd::train {

// What a step and an evaluation need from the run; all four must outlive the
// holder of this struct.
struct TrainingSubject {
  const TaskPipeline& pipeline;
  model::Network& network;
  optim::Trainable& trainable;
  device::Device& device;
};

struct EvalResult {
  double loss = 0;           // mean over the targets, weighted as in training
  int64_t label_tokens = 0;  // 0 for classifiers
  metrics::Values metrics;
  metrics::Predictions predictions;  // without rows for language models
};

// Computes the loss and the metrics of a data set, without dropout and
// gradients. Calls `go_on` before each batch with the share done so far; false
// ends the evaluation with Cancelled. DataLoss for a loss that is not finite.
absl::StatusOr<EvalResult> Evaluate(const TrainingSubject& subject,
                                    const data::EvalLoader& batches,
                                    const std::function<bool(double)>& go_on);

// Computes a classifier's logits for rows that may have no labels.
absl::StatusOr<metrics::Predictions> Predict(
    const TrainingSubject& subject, const data::EvalLoader& batches,
    const std::function<bool(double)>& go_on);

}  // namespace mpsd::train

#endif  // MPSD_CORE_TRAIN_EVALUATE_H_
