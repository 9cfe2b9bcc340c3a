// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_HTTP_WORKER_METRICS_H_
#define MPSD_SERVER_HTTP_WORKER_METRICS_H_

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "server/jobs/exported_metrics.h"
#include "server/jobs/job.h"
#include "server/jobs/meters.h"

namespace mpsd::prometheus {

// The metrics of the running worker, and the time of all workers by phase.
// `now` is monotonic. A report is ignored while no worker runs. Not
// thread-safe.
class WorkerMetrics {
 public:
  // The device of a worker that has not reported it.
  static constexpr const char* kUnknownDevice = "unknown";

  // `registry` must outlive the WorkerMetrics.
  explicit WorkerMetrics(::prometheus::Registry& registry);

  // `time`: the wall clock's, at `now`.
  void Started(const jobs::StartedJob& job, absl::Time time,
               absl::Duration now);
  void DeviceOpened(const std::string& device);
  void StageBegan(const std::string& stage, absl::Duration now);
  void Halts(bool halts, absl::Duration now);
  // `device`: of `progress`, as a label.
  void Stepped(const jobs::Progress& progress, const std::string& device,
               absl::Duration now);
  void Evaluated(double seconds, absl::Duration now);
  void Saved(double seconds, absl::Duration now);
  void Exited(absl::Duration now);

  // Counts the running worker's time until `now`.
  void Advance(absl::Duration now);

  // The running job's remaining time: zero if none runs, absent if unknown.
  std::optional<absl::Duration> TimeLeft() const;

 private:
  struct Running {
    jobs::PhaseClock clock;
    absl::Duration started;
    std::string device;  // empty while unknown
    bool stepped = false;
    std::optional<absl::Duration> time_left;
    ::prometheus::Gauge* start = nullptr;
  };
  using PhaseTimes = std::map<jobs::Phase, absl::Duration>;

  // Shows what all workers of `device` spent, `more` by the running one.
  void Show(const std::string& device, const PhaseTimes& more);

  ::prometheus::Family<::prometheus::Counter>& seconds_;
  ::prometheus::Family<::prometheus::Histogram>& start_seconds_;
  ::prometheus::Family<::prometheus::Gauge>& start_;
  std::map<std::string, PhaseTimes> ended_;  // workers' that ended, by device
  std::optional<Running> running_;
};

}  // namespace mpsd::prometheus

#endif  // MPSD_SERVER_HTTP_WORKER_METRICS_H_
