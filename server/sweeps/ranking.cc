// SPDX-License-Identifier: Apache-2.0
#include "server/sweeps/ranking.h"

#include <algorithm>
#include <cmath>

#include "server/sweeps/halving.h"

namespace mpsd::sweeps {
namespace {

std::optional<double> Finite(std::optional<double> value) {
  return value && std::isfinite(*value) ? value : std::nullopt;
}

// What a child is ranked by, if it is.
std::optional<double> RankedBy(const Sweep& sweep, const Child& child,
                               const JobsById& jobs) {
  const auto job = jobs.find(child.job_id);
  // A child that was dropped, or deleted, stays where it was then.
  if (child.drop || job == jobs.end()) return Finite(child.metric);
  const bool failed = job->second.state == jobs::State::kFailed ||
                      job->second.state == jobs::State::kCancelled;
  return failed ? std::nullopt : ValueOf(sweep.plan, job->second);
}

}  // namespace

std::optional<double> ValueOf(const Plan& plan, const jobs::Job& job) {
  if (plan.metric == "loss") return Finite(job.eval_loss_after);
  if (plan.metric == "train_loss") return Finite(job.train_loss);
  for (const auto& [name, value] : job.metrics) {
    if (name == plan.metric) return Finite(value);
  }
  return std::nullopt;
}

std::vector<Place> Rank(const Sweep& sweep, const JobsById& jobs) {
  std::vector<std::optional<double>> metrics;
  metrics.reserve(sweep.children.size());
  for (const Child& child : sweep.children) {
    metrics.push_back(RankedBy(sweep, child, jobs));
  }
  std::vector<Place> places;
  for (const size_t i : Ranked(metrics, sweep.plan.greater_is_better)) {
    places.push_back({i, 0, metrics[i]});
  }
  std::stable_sort(
      places.begin(), places.end(), [&](const Place& a, const Place& b) {
        if (a.metric.has_value() != b.metric.has_value()) {
          return a.metric.has_value();
        }
        return sweep.children[a.child].rung > sweep.children[b.child].rung;
      });
  int64_t rank = 0;
  for (Place& place : places) {
    if (place.metric) place.rank = ++rank;
  }
  return places;
}

}  // namespace mpsd::sweeps
