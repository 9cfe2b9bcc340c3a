// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/step_profile.h"

#include <torch/csrc/autograd/profiler_kineto.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace mpsd::bench {
namespace {

using torch::autograd::profiler::KinetoEvent;
using torch::autograd::profiler::ProfilerResult;
using torch::profiler::impl::ActivityType;
using torch::profiler::impl::ProfilerConfig;
using torch::profiler::impl::ProfilerState;

std::unique_ptr<ProfilerResult> Record(const std::function<void()>& work) {
  const ProfilerConfig config(ProfilerState::KINETO);
  const std::set<ActivityType> activities = {ActivityType::CPU,
                                             ActivityType::CUDA};
  torch::autograd::profiler::prepareProfiler(config, activities);
  torch::autograd::profiler::enableProfiler(config, activities,
                                            {at::RecordScope::FUNCTION});
  work();
  return torch::autograd::profiler::disableProfiler();
}

// The device's own events, or of the host's those within no other; by start.
std::vector<const KinetoEvent*> Outermost(const ProfilerResult& result) {
  const auto on_device = [](const KinetoEvent& e) {
    return e.deviceType() != at::DeviceType::CPU;
  };
  const bool device =
      std::any_of(result.events().begin(), result.events().end(), on_device);
  std::vector<const KinetoEvent*> events;
  for (const KinetoEvent& e : result.events()) {
    if (on_device(e) == device && e.durationNs() > 0) events.push_back(&e);
  }
  std::stable_sort(events.begin(), events.end(),
                   [](const KinetoEvent* a, const KinetoEvent* b) {
                     return a->startNs() < b->startNs();
                   });
  if (device) return events;
  std::vector<const KinetoEvent*> outermost;
  uint64_t end = 0;
  for (const KinetoEvent* e : events) {
    if (e->startNs() < end) continue;
    end = e->startNs() + e->durationNs();
    outermost.push_back(e);
  }
  return outermost;
}

double Milliseconds(uint64_t ns) { return static_cast<double>(ns) / 1e6; }

}  // namespace

nlohmann::json ProfileOf(const std::function<void()>& work, size_t most) {
  const std::unique_ptr<ProfilerResult> result = Record(work);
  std::map<std::string, std::pair<double, int64_t>> by_name;
  double total = 0;
  uint64_t first = UINT64_MAX, last = 0;
  for (const KinetoEvent* e : Outermost(*result)) {
    const double ms = Milliseconds(e->durationNs());
    auto& [sum, count] = by_name[e->name()];
    sum += ms;
    ++count;
    total += ms;
    first = std::min<uint64_t>(first, e->startNs());
    last = std::max<uint64_t>(last, e->startNs() + e->durationNs());
  }
  using Row = std::tuple<double, int64_t, std::string>;
  std::vector<Row> rows;
  for (const auto& [name, cost] : by_name) {
    rows.emplace_back(cost.first, cost.second, name);
  }
  std::sort(rows.rbegin(), rows.rend());
  nlohmann::json table = nlohmann::json::array();
  for (size_t i = 0; i < std::min(most, rows.size()); ++i) {
    const auto& [ms, count, name] = rows[i];
    table.push_back({ms, count, name});
  }
  return {{"by_name", table},
          {"total_ms", total},
          {"wall_ms", first < last ? Milliseconds(last - first) : 0}};
}

}  // namespace mpsd::bench
