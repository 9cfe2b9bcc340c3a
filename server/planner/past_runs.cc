// SPDX-License-Identifier: Apache-2.0
#include "server/planner/past_runs.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/status/statusor.h"
#include "server/planner/spec_shape.h"

namespace mpsd::planner {
namespace {

constexpr int kLooks = 50;
constexpr size_t kRuns = 10;

double Median(std::vector<double> values) {
  const size_t middle = values.size() / 2;
  std::sort(values.begin(), values.end());
  return values.size() % 2 == 1 ? values[middle]
                                : (values[middle - 1] + values[middle]) / 2;
}

bool Tells(const jobs::Job& job, const std::string& device) {
  if (job.kind != jobs::JobKind::kTraining || !job.progress || !job.end_time) {
    return false;
  }
  const jobs::Progress& last = *job.progress;
  return last.device == device && std::isfinite(last.tokens_per_second) &&
         last.tokens_per_second > 0 && std::isfinite(last.seconds) &&
         last.seconds > 0;
}

}  // namespace

std::optional<Pace> PaceOfPastRuns(
    jobs::JobReader& reader, const std::string& model,
    const spec::TrainSpec& spec, const std::string& device,
    const std::function<bool(const std::string& owner)>& may_read) {
  jobs::ListFilter filter;
  filter.states = {jobs::State::kSucceeded};
  filter.model = model;
  filter.limit = kLooks;
  filter.summaries = true;
  const absl::StatusOr<std::vector<jobs::Job>> jobs = reader.List(filter);
  if (!jobs.ok() || device.empty()) return std::nullopt;
  const std::string shape = SpeedShape(spec);
  std::vector<double> rates, steps;
  Pace pace;
  for (const jobs::Job& job : *jobs) {
    if (steps.size() == kRuns) break;
    if (!Tells(job, device) || (may_read && !may_read(job.owner))) continue;
    // A summary has no spec.
    const absl::StatusOr<jobs::Job> whole = reader.Get(job.id);
    if (!whole.ok()) continue;
    const absl::StatusOr<spec::TrainSpec> ran =
        spec::ParseTrainSpec(whole->spec_json, "job.json");
    if (!ran.ok() || SpeedShape(*ran) != shape) continue;
    rates.push_back(job.progress->tokens_per_second);
    steps.push_back(job.progress->seconds);
    pace.newest = std::max(pace.newest, *job.end_time);
  }
  if (steps.empty()) return std::nullopt;
  pace.runs = static_cast<int>(steps.size());
  pace.tokens_per_second = Median(std::move(rates));
  pace.step_seconds = Median(std::move(steps));
  return pace;
}

}  // namespace mpsd::planner
