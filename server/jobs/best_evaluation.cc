// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/best_evaluation.h"

#include <cmath>
#include <limits>

#include "core/metrics/metrics.h"
#include "core/spec/train_spec.h"

namespace mpsd::jobs {
namespace {

double ValueOf(const Evaluated& evaluated, const std::string& metric) {
  if (metric.empty()) return evaluated.eval_loss;
  for (const auto& [name, value] : evaluated.metrics) {
    if (name == metric) return value;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

Goal GoalOf(const std::string& spec_json) {
  Goal goal;
  const auto spec = spec::ParseTrainSpec(spec_json, "job.json");
  if (!spec.ok()) return goal;
  goal.metric = spec->training.metric_for_best_model;
  if (goal.metric.starts_with("eval_")) goal.metric.erase(0, 5);
  if (goal.metric == "loss") goal.metric.clear();
  goal.greater = spec->training.greater_is_better.value_or(
      !goal.metric.empty() && metrics::GreaterIsBetter(goal.metric));
  return goal;
}

bool IsBetter(const Evaluated& evaluated, const Evaluated& best,
              const Goal& goal) {
  const double value = ValueOf(evaluated, goal.metric);
  const double bound = ValueOf(best, goal.metric);
  if (std::isnan(value)) return false;
  if (std::isnan(bound)) return true;
  return goal.greater ? value > bound : value < bound;
}

}  // namespace mpsd::jobs
