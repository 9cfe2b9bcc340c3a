// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_PROMETHEUS_REASON_METRICS_H_
#define MPSD_SERVER_PROMETHEUS_REASON_METRICS_H_

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include <map>
#include <optional>
#include <set>
#include <string>

#include "absl/time/time.h"
#include "server/prometheus/names.h"

namespace mpsd::prometheus {

// The metrics of reasons that begin and end, by label "reason": which of them
// hold, how often each began, and for how long each held. Times are monotonic.
// Not thread-safe.
class ReasonMetrics {
 public:
  struct Names {
    const Metric &holds, &times, &seconds;
  };

  // `registry` must outlive the ReasonMetrics. `reasons`: all that exist.
  ReasonMetrics(::prometheus::Registry& registry, const Names& names,
                const std::set<std::string>& reasons);

  // The reasons that hold from `now` on.
  void Set(const std::set<std::string>& reasons, absl::Duration now);
  // Counts the time until `now` of the reasons that hold.
  void Advance(absl::Duration now);

 private:
  struct Series {
    ::prometheus::Gauge& holds;
    ::prometheus::Counter &times, &seconds;
    std::optional<absl::Duration> counted;  // until then; absent: not held
  };
  std::map<std::string, Series> series_;  // by reason
};

}  // namespace mpsd::prometheus

#endif  // MPSD_SERVER_PROMETHEUS_REASON_METRICS_H_
