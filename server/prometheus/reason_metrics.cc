// SPDX-License-Identifier: Apache-2.0
#include "server/prometheus/reason_metrics.h"

#include <utility>

#include "server/prometheus/families.h"

namespace mpsd::prometheus {

ReasonMetrics::ReasonMetrics(::prometheus::Registry& registry,
                             const Names& names,
                             const std::set<std::string>& reasons) {
  auto& holds = Gauges(registry, names.holds);
  auto& times = Counters(registry, names.times);
  auto& seconds = Counters(registry, names.seconds);
  for (const std::string& reason : reasons) {
    const std::map<std::string, std::string> label = {{"reason", reason}};
    series_.insert({reason,
                    {holds.Add(label), times.Add(label), seconds.Add(label),
                     std::nullopt}});
  }
}

void ReasonMetrics::Set(const std::set<std::string>& reasons,
                        absl::Duration now) {
  Advance(now);
  for (auto& [reason, series] : series_) {
    const bool holds = reasons.contains(reason);
    series.holds.Set(holds ? 1 : 0);
    if (!holds) {
      series.counted.reset();
    } else if (!series.counted) {
      series.times.Increment();
      series.counted = now;
    }
  }
}

void ReasonMetrics::Advance(absl::Duration now) {
  for (auto& [reason, series] : series_) {
    if (!series.counted) continue;
    series.seconds.Increment(
        absl::ToDoubleSeconds(now - std::exchange(*series.counted, now)));
  }
}

}  // namespace mpsd::prometheus
