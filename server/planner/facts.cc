// SPDX-License-Identifier: Apache-2.0
#include "server/planner/facts.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/text.h"
#include "server/planner/plan_run.h"

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

bool HasSpeed(const jobs::Job& job, const std::string& device) {
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
    if (!HasSpeed(job, device) || (may_read && !may_read(job.owner))) continue;
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

namespace {

using Json = nlohmann::json;

void Put(Json& json, const char* name, const std::string& text) {
  if (!text.empty()) json[name] = text;
}
void Put(Json& json, const char* name, int64_t number) {
  if (number > 0) json[name] = number;
}

Json PaceJson(const Pace& pace) {
  return {{"runs", pace.runs},
          {"step_seconds", pace.step_seconds},
          {"tokens_per_second", pace.tokens_per_second},
          {"newest", absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", pace.newest,
                                      absl::UTCTimeZone())}};
}

}  // namespace

std::string Encode(const Facts& facts) {
  Json json = Json::object();
  if (!facts.read_roots.empty()) json["read_roots"] = facts.read_roots;
  Put(json, "device", facts.device);
  Put(json, "chip", facts.chip);
  Put(json, "gpu_cores", facts.gpu_cores);
  Put(json, "cpu_cores", facts.cpu_cores);
  Put(json, "memory_bytes", facts.memory_bytes);
  Put(json, "memory_limit_bytes", facts.memory_limit_bytes);
  if (facts.disk_free_bytes) json["disk_free_bytes"] = *facts.disk_free_bytes;
  if (!facts.thresholds.empty()) json["thresholds"] = facts.thresholds;
  if (facts.pace) json["pace"] = PaceJson(*facts.pace);
  Json probe = base::ParseTree<Json>(facts.probe_json);
  if (probe.is_object()) json["probe"] = std::move(probe);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace mpsd::planner
