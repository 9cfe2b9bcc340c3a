// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/data/loader.h"
#include "core/device/device.h"
#include "core/model/network.h"
#include "core/optim/parameters.h"
#include "core/report/metrics.h"
#include "core/spec/train_spec.h"
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
  int64_t label_tokens = 0;  // for classifiers: rows
  metrics::Values metrics;
  metrics::Predictions predictions;  // without rows for language models
};

// The labels of a batch that count in the loss; a classifier's are its rows.
int64_t LabelsOf(const data::Batch& batch);

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

// Decides which of two evaluations is better, by the rules of Transformers
// (trainer.py, _determine_best_metric; trainer_callback.py,
// EarlyStoppingCallback).
class BestModel {
 public:
  // `metrics` names the task's metrics. InvalidArgument, with that list, if
  // training.metric_for_best_model is not one of them.
  static absl::StatusOr<BestModel> Create(
      const spec::TrainingSpec& training,
      const std::vector<std::string>& metrics);

  const std::string& metric() const { return metric_; }
  // The evaluation's value of metric().
  double ValueOf(const EvalResult& result) const;
  // Whether `value` is better than `best`; any number is better than none.
  bool IsBetter(double value, const std::optional<double>& best) const;
  // Whether `value` is better by more than early_stopping_threshold, or is that
  // of the `first` evaluation since training began.
  bool Gains(double value, const std::optional<double>& best, bool first) const;

 private:
  std::string metric_;  // "loss", or one of the task's metrics
  bool greater_is_better_ = false;
  double threshold_ = 0;
};

}  // namespace mpsd::train
