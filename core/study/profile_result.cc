// SPDX-License-Identifier: Apache-2.0
#include "core/study/profile_result.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace mpsd::study {
namespace {

using nlohmann::json;
using profile::Tally;

constexpr size_t kOperators = 50;
constexpr size_t kBlocks = 100;
constexpr size_t kLayers = 512;
constexpr size_t kWaits = 20;
constexpr size_t kFallbacks = 100;

double Ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

// Converts a sum over all steps to seconds or calls per step.
class PerStep {
 public:
  explicit PerStep(const Tally& tally)
      : steps_(static_cast<double>(std::max<int64_t>(tally.steps, 1))) {}
  double Seconds(int64_t ns) const {
    return static_cast<double>(ns) / 1e9 / steps_;
  }
  double Calls(int64_t calls) const {
    return static_cast<double>(calls) / steps_;
  }

 private:
  const double steps_;
};

json Steps(const ProfileFacts& facts) {
  std::vector<double> warm_up, profiled, first_epoch, later;
  int plain = 0;
  for (size_t i = 0; i < facts.steps.size(); ++i) {
    const ProfiledStep& step = facts.steps[i];
    const double seconds = step.progress.seconds;
    if (step.kind == StepKind::kWarmUp) {
      if (i > 0) warm_up.push_back(seconds);
      continue;
    }
    // The steps under the profiler are longer: only the others separate epochs.
    if (step.kind == StepKind::kProfiled) {
      profiled.push_back(seconds);
      continue;
    }
    ++plain;
    (step.progress.epoch <= 1 ? first_epoch : later).push_back(seconds);
  }
  const double steady = facts.StepSeconds();
  json steps = {{"warm_up", facts.steps.size() - profiled.size() -
                                static_cast<size_t>(plain)},
                {"plain", plain},
                {"profiled", profiled.size()},
                {"first_seconds",
                 facts.steps.empty() ? 0 : facts.steps[0].progress.seconds},
                {"steady_seconds", steady},
                {"profiled_seconds", Median(profiled)},
                {"overhead_ratio", facts.Overhead()},
                {"data_wait_share", Ratio(facts.DataWaitSeconds(), steady)}};
  if (!warm_up.empty()) steps["warm_up_seconds"] = Median(warm_up);
  if (!first_epoch.empty()) steps["first_epoch_seconds"] = Median(first_epoch);
  if (!later.empty()) steps["later_epochs_seconds"] = Median(later);
  if (const auto ratio = facts.Utilization()) {
    steps["device_utilization_ratio"] = *ratio;
  }
  return steps;
}

json Captures(const ProfileFacts& facts) {
  json captures = json::array();
  const auto add = [&](const char* name, size_t steps, double seconds) {
    if (steps == 0) return;
    captures.push_back(
        {{"name", name}, {"steps", steps}, {"seconds", seconds}});
  };
  add("data", facts.data_seconds.size(), Median(facts.data_seconds));
  add("forward", facts.forward_seconds.size(), Median(facts.forward_seconds));
  const auto plain = static_cast<size_t>(std::count_if(
      facts.steps.begin(), facts.steps.end(),
      [](const ProfiledStep& s) { return s.kind == StepKind::kPlain; }));
  add("step", plain, facts.StepSeconds());
  return captures;
}

json Operators(const Tally& tally) {
  const PerStep per_step(tally);
  const auto time = [&](const profile::OperatorCost& cost) {
    return tally.device_told ? cost.device_ns : cost.self_ns;
  };
  std::vector<std::pair<std::string, profile::OperatorCost>> rows(
      tally.operators.begin(), tally.operators.end());
  double all = 0;
  for (const auto& [name, cost] : rows) all += static_cast<double>(time(cost));
  std::stable_sort(rows.begin(), rows.end(), [&](const auto& a, const auto& b) {
    return time(a.second) > time(b.second);
  });
  json operators = json::array();
  for (const auto& [name, cost] : rows) {
    if (operators.size() == kOperators) break;
    json row = {{"name", name},
                {"calls", per_step.Calls(cost.calls)},
                {"self_seconds", per_step.Seconds(cost.self_ns)},
                {"share", Ratio(static_cast<double>(time(cost)), all)}};
    if (tally.device_told) {
      row["device_seconds"] = per_step.Seconds(cost.device_ns);
    }
    operators.push_back(std::move(row));
  }
  return operators;
}

// "layer" is a layer's work outside its blocks, "step" the same for the step.
json Blocks(const Tally& tally) {
  const PerStep per_step(tally);
  std::vector<const std::pair<const std::pair<std::string, profile::Phase>,
                              profile::BlockCost>*>
      rows;
  for (const auto& row : tally.blocks) rows.push_back(&row);
  std::stable_sort(rows.begin(), rows.end(), [](const auto* a, const auto* b) {
    return a->second.ns > b->second.ns;
  });
  json blocks = json::array();
  for (const auto* row : rows) {
    if (blocks.size() == kBlocks) break;
    const auto& [name, cost] = *row;
    json block = {{"name", name.first},
                  {"phase", profile::NameOf(name.second)},
                  {"calls", per_step.Calls(cost.calls)},
                  {"seconds", per_step.Seconds(cost.ns)},
                  {"share", Ratio(static_cast<double>(cost.ns),
                                  static_cast<double>(tally.step_ns))},
                  {"operator_seconds", per_step.Seconds(cost.operator_ns)}};
    if (tally.device_told) {
      block["device_seconds"] = per_step.Seconds(cost.device_ns);
    }
    blocks.push_back(std::move(block));
  }
  return blocks;
}

json Layers(const Tally& tally) {
  const PerStep per_step(tally);
  json layers = json::array();
  for (const auto& [index, cost] : tally.layers) {
    if (layers.size() == kLayers) break;
    const int64_t* ns = tally.device_told ? cost.device_ns : cost.ns;
    // Recomputation is part of the backward.
    layers.push_back({{"index", index},
                      {"forward_seconds", per_step.Seconds(ns[0])},
                      {"backward_seconds", per_step.Seconds(ns[1] + ns[2])}});
  }
  return layers;
}

json Gaps(const Tally& tally) {
  const PerStep per_step(tally);
  const profile::GapCost& gaps = tally.gaps;
  json json = {{"count", per_step.Calls(gaps.count)},
               {"seconds", per_step.Seconds(gaps.ns)},
               {"share", Ratio(static_cast<double>(gaps.ns),
                               static_cast<double>(tally.step_ns))},
               {"longest_seconds", static_cast<double>(gaps.longest_ns) / 1e9},
               {"longest_before", gaps.longest_before},
               {"longest_block", gaps.longest_block}};
  if (tally.device_told) {
    json["device_idle_ratio"] =
        1 - Ratio(static_cast<double>(tally.device_busy_ns),
                  static_cast<double>(tally.device_window_ns));
  }
  return json;
}

json Waits(const Tally& tally) {
  const PerStep per_step(tally);
  json waits = json::array();
  for (const auto& [name, cost] : tally.waits) {
    if (waits.size() == kWaits) break;
    const auto most = std::max_element(
        cost.blocks.begin(), cost.blocks.end(),
        [](const auto& a, const auto& b) { return a.second < b.second; });
    waits.push_back({{"name", name},
                     {"calls", per_step.Calls(cost.calls)},
                     {"seconds", per_step.Seconds(cost.ns)},
                     {"block", most->first}});
  }
  const auto own =
      tally.blocks.find({Tally::kReadBack, profile::Phase::kForward});
  if (own != tally.blocks.end()) {
    waits.push_back({{"name", Tally::kReadBack},
                     {"calls", per_step.Calls(own->second.calls)},
                     {"seconds", per_step.Seconds(own->second.ns)},
                     {"block", Tally::kReadBack},
                     {"own", true}});
  }
  return waits;
}

json Memory(const ProfileFacts& facts) {
  json memory = json::object();
  const auto peak = [&](const char* name, const std::optional<int64_t>& value) {
    if (!value) return;
    memory[name] = std::max(memory.value(name, int64_t{0}), *value);
  };
  for (const ProfiledStep& step : facts.steps) {
    const report::MemoryCounters& counters = step.progress.memory;
    peak("peak_allocated_bytes", counters.peak_allocated_bytes);
    peak("peak_driver_bytes", counters.driver_allocated_bytes);
    peak("peak_footprint_bytes", counters.footprint_bytes);
    peak("recommended_max_bytes", counters.recommended_max_bytes);
  }
  if (const auto growth = facts.MemoryGrowth())
    memory["growth_ratio"] = *growth;
  return memory;
}

json Fallbacks(const report::Counts& counts) {
  json fallbacks = json::object();
  for (const auto& [name, count] : counts) {
    if (fallbacks.size() == kFallbacks) break;
    fallbacks[name] = count;
  }
  return fallbacks;
}

}  // namespace

json ProfileResult(const ProfileFacts& facts) {
  json result = {{"device", facts.device},
                 {"gradients", facts.gradients},
                 {"not_told", facts.not_told},
                 {"steps", Steps(facts)},
                 {"captures", Captures(facts)},
                 {"operators", Operators(facts.tally)},
                 {"blocks", Blocks(facts.tally)},
                 {"layers", Layers(facts.tally)},
                 {"gaps", Gaps(facts.tally)},
                 {"waits", Waits(facts.tally)},
                 {"cpu_fallback_ops", Fallbacks(facts.fallbacks())},
                 {"memory", Memory(facts)}};
  if (facts.trace) {
    result["trace"] = {{"file", facts.trace->name},
                       {"size_bytes", facts.trace->bytes},
                       {"steps", facts.trace->steps},
                       {"events", facts.trace->events}};
  }
  return result;
}

}  // namespace mpsd::study
