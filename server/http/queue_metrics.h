// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_HTTP_QUEUE_METRICS_H_
#define MPSD_SERVER_HTTP_QUEUE_METRICS_H_

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "absl/time/time.h"
#include "server/jobs/job_queue.h"
#include "server/http/families.h"
#include "server/http/names.h"

namespace mpsd::prometheus {

// The gauges of the queue. Not thread-safe.
class QueueMetrics {
 public:
  // Values with their own label; the help texts state the numbers.
  static constexpr size_t kMostPriorities = 16;
  static constexpr size_t kMostOwners = 32;

  // `registry` must outlive the QueueMetrics.
  explicit QueueMetrics(::prometheus::Registry& registry);

  void Set(const jobs::QueueDepth& depth);
  // Sets the age of the oldest queued job as of `now`, the wall clock's time.
  void SetAge(absl::Time now) const;
  // Sets the ETA of all jobs. `running`: the remaining time of the running job,
  // zero if none runs, absent if unknown.
  void SetEta(std::optional<absl::Duration> running);

 private:
  using GaugeFamily = ::prometheus::Family<::prometheus::Gauge>;
  using Series = std::map<std::string, ::prometheus::Gauge*>;  // by label

  static void SetAll(GaugeFamily& family, const std::string& label,
                     const std::map<std::string, int64_t>& jobs,
                     Series& series);

  GaugeFamily &by_priority_, &by_owner_, &eta_family_;
  ::prometheus::Gauge& oldest_age_;
  LabelCap priorities_{kMostPriorities}, owners_{kMostOwners};
  Series priority_series_, owner_series_;
  std::optional<absl::Time> oldest_;
  std::optional<absl::Duration> queued_time_left_;
  ::prometheus::Gauge* eta_ = nullptr;  // null while there is no ETA
};

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

#endif  // MPSD_SERVER_HTTP_QUEUE_METRICS_H_
