// SPDX-License-Identifier: Apache-2.0
#include "server/http/queue_metrics.h"

#include <algorithm>
#include <utility>

#include "server/http/families.h"

namespace mpsd::prometheus {

QueueMetrics::QueueMetrics(::prometheus::Registry& registry)
    : by_priority_(Gauges(registry, kQueuedByPriority)),
      by_owner_(Gauges(registry, kQueuedByOwner)),
      eta_family_(Gauges(registry, kQueueEta)),
      oldest_age_(Gauges(registry, kQueueOldest).Add({})) {}

void QueueMetrics::Set(const jobs::QueueDepth& depth) {
  std::map<std::string, int64_t> priorities, owners;
  for (const auto& [priority, jobs] : depth.by_priority) {
    priorities[priorities_.Of(std::to_string(priority))] += jobs;
  }
  for (const auto& [owner, jobs] : depth.by_owner) {
    // Prometheus treats an empty label as none.
    owners[owners_.Of(owner.empty() ? "unknown" : BoundedLabel(owner))] += jobs;
  }
  SetAll(by_priority_, "priority", priorities, priority_series_);
  SetAll(by_owner_, "owner", owners, owner_series_);
  oldest_ = depth.oldest;
  queued_time_left_ = depth.time_left;
}

void QueueMetrics::SetAge(absl::Time now) const {
  // Setting back the wall clock makes no age negative.
  const absl::Duration age =
      oldest_ ? std::max(now - *oldest_, absl::ZeroDuration())
              : absl::ZeroDuration();
  oldest_age_.Set(absl::ToDoubleSeconds(age));
}

void QueueMetrics::SetEta(std::optional<absl::Duration> running) {
  if (!running || !queued_time_left_) {
    if (eta_ != nullptr) eta_family_.Remove(std::exchange(eta_, nullptr));
    return;
  }
  if (eta_ == nullptr) eta_ = &eta_family_.Add({});
  eta_->Set(absl::ToDoubleSeconds(*running + *queued_time_left_));
}

// A series, once seen, stays at 0, so that a graph shows the queue empty.
void QueueMetrics::SetAll(GaugeFamily& family, const std::string& label,
                          const std::map<std::string, int64_t>& jobs,
                          Series& series) {
  for (auto& [value, gauge] : series) gauge->Set(0);
  for (const auto& [value, count] : jobs) {
    ::prometheus::Gauge*& gauge = series[value];
    if (gauge == nullptr) gauge = &family.Add({{label, value}});
    gauge->Set(static_cast<double>(count));
  }
}

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
