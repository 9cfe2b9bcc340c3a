// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_TRAIN_BEST_MODEL_H_
#define MPSD_CORE_TRAIN_BEST_MODEL_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/spec/train_spec.h"
#include "core/train/evaluate.h"

namespace mpsd::train {

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
  // Whether `value` is better by more than early_stopping_threshold.
  bool Gains(double value, const std::optional<double>& best) const;

 private:
  std::string metric_;  // "loss", or one of the task's metrics
  bool greater_is_better_ = false;
  double threshold_ = 0;
};

}  // namespace mpsd::train

#endif  // MPSD_CORE_TRAIN_BEST_MODEL_H_
