// SPDX-License-Identifier: Apache-2.0
#include "core/train/best_model.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace mpsd::train {

absl::StatusOr<BestModel> BestModel::Create(
    const spec::TrainingSpec& training,
    const std::vector<std::string>& metrics) {
  BestModel best;
  std::string name = training.metric_for_best_model;
  if (name.starts_with("eval_")) name = name.substr(5);
  if (name.empty()) name = "loss";
  if (name != "loss" &&
      std::find(metrics.begin(), metrics.end(), name) == metrics.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "training.metric_for_best_model: there is no metric \"",
        training.metric_for_best_model, "\" in this job; there are loss, ",
        absl::StrJoin(metrics, ", ")));
  }
  best.metric_ = name;
  best.greater_is_better_ =
      training.greater_is_better.value_or(metrics::GreaterIsBetter(name));
  best.threshold_ = training.early_stopping_threshold;
  return best;
}

double BestModel::ValueOf(const EvalResult& result) const {
  if (metric_ == "loss") return result.loss;
  for (const auto& [name, value] : result.metrics) {
    if (name == metric_) return value;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

// A metric may be NaN (a correlation of constants). NaN is never better: no
// comparison could replace it as the best.
bool BestModel::IsBetter(double value,
                         const std::optional<double>& best) const {
  if (std::isnan(value)) return false;
  if (!best) return true;
  return greater_is_better_ ? value > *best : value < *best;
}

bool BestModel::Gains(double value, const std::optional<double>& best) const {
  return IsBetter(value, best) &&
         (!best || std::abs(value - *best) > threshold_);
}

}  // namespace mpsd::train
