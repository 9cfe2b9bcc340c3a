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

// By what one evaluation is better than another (transformers, trainer.py
// _determine_best_metric; trainer_callback.py EarlyStoppingCallback).
class BestModel {
 public:
  // `metrics` are those of the task. InvalidArgument for a
  // metric_for_best_model that is none of them, listing them.
  static absl::StatusOr<BestModel> Create(
      const spec::TrainingSpec& training,
      const std::vector<std::string>& metrics);

  const std::string& metric() const { return metric_; }
  double ValueOf(const EvalResult& result) const;
  bool IsBetter(double value, const std::optional<double>& best) const;
  // Whether it is better by more than early_stopping_threshold.
  bool Gains(double value, const std::optional<double>& best) const;

 private:
  std::string metric_;  // "loss", or one of the task's
  bool greater_is_better_ = false;
  double threshold_ = 0;
};

}  // namespace mpsd::train

#endif  // MPSD_CORE_TRAIN_BEST_MODEL_H_
