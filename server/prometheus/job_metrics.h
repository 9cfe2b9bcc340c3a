// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_PROMETHEUS_JOB_METRICS_H_
#define MPSD_SERVER_PROMETHEUS_JOB_METRICS_H_

#include <prometheus/collectable.h>
#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "server/jobs/exported_metrics.h"
#include "server/prometheus/exemplars.h"
#include "server/prometheus/names.h"
#include "server/prometheus/queue_metrics.h"

namespace mpsd::prometheus {

// Shows the scheduler's reports as Prometheus series. Thread-safe.
class JobMetrics final : public jobs::ExportedMetrics,
                         public ::prometheus::Collectable {
 public:
  struct Options {
    std::map<std::string, std::string> build_info;  // label → value
    // How long Collect() returns the series of a job that has ended.
    absl::Duration linger = absl::Minutes(10);
  };

  JobMetrics(const Options& options, const base::Clock& clock);

  void JobCounts(const std::map<jobs::State, int64_t>& jobs) override;
  void QueueChanged(const jobs::QueueDepth& depth) override;
  void JobStarted(const jobs::StartedJob& job) override;
  void StepFinished(const std::string& job_id,
                    const jobs::Progress& progress) override;
  void Evaluated(const std::string& job_id, const std::string& device,
                 const jobs::Evaluated& evaluated) override;
  void CheckpointWritten(const std::string& job_id, const std::string& device,
                         double seconds) override;
  void WorkerExited(jobs::ExitReason reason) override;
  void HostRead(const host::Reading& reading) override;
  void Paused(const jobs::PauseReasons& reasons) override;
  void Held(const jobs::Holds& holds) override;
  void JobEnded(const std::string& job_id, jobs::State state) override;
  void JobDeleted(const std::string& job_id) override;

  // A notification left the queue of `door` with `result`, by the words of
  // names.h.
  void Notified(const std::string& door, const std::string& result) {
    notifications_.Add({{"door", door}, {"result", result}}).Increment();
  }

  // Drops the series of jobs that ended more than `linger` ago, as JobEnded
  // does in case nobody collects. Adds what the system counts for this process.
  std::vector<::prometheus::MetricFamily> Collect() const override;

  // The jobs behind the last steps.
  const Exemplars& exemplars() const { return exemplars_; }

  // The number of jobs whose series are kept.
  size_t job_series() const {
    absl::MutexLock lock(&mutex_);
    return series_.size();
  }

 private:
  using GaugeFamily = ::prometheus::Family<::prometheus::Gauge>;
  using CounterFamily = ::prometheus::Family<::prometheus::Counter>;
  using HistogramFamily = ::prometheus::Family<::prometheus::Histogram>;

  // The gauges of one job, by family and label "metric".
  struct JobSeries {
    std::map<std::pair<GaugeFamily*, std::string>, ::prometheus::Gauge*> gauges;
    // An evaluation that came before any step told the device.
    std::optional<jobs::Evaluated> early_evaluation;
    std::optional<absl::Duration> ended_at;           // monotonic
    std::map<std::string, int64_t> cpu_fallback_ops;  // counted so far
  };

  void Set(const std::string& job_id, const std::string& device,
           GaugeFamily& family, double value, const std::string& metric = "")
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetEvaluation(const std::string& job_id, const std::string& device,
                     const jobs::Evaluated& evaluated)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetStep(const std::string& job_id, const jobs::Progress& progress)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetWorker(const std::string& device, GaugeFamily& family, double value)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountFallbacks(const std::string& job_id, const jobs::Progress& progress)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetHost(const Metric& metric, std::optional<double> value)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropEnded() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const absl::Duration linger_;
  const base::Clock& clock_;
  ::prometheus::Registry registry_;
  QueueMetrics queue_ ABSL_GUARDED_BY(mutex_);
  GaugeFamily &jobs_, &info_, &last_step_, &last_checkpoint_, &eval_loss_,
      &eval_metric_, &paused_, &held_;
  // Keyed by the field of a step that the gauge shows.
  std::vector<std::pair<std::string_view, GaugeFamily*>> step_gauges_,
      memory_gauges_;
  CounterFamily &ended_, &steps_, &tokens_, &exits_, &fallbacks_, &pauses_,
      &notifications_;
  HistogramFamily &queue_wait_, &step_, &checkpoint_;

  Exemplars exemplars_;
  mutable absl::Mutex mutex_;
  mutable std::map<std::string, JobSeries> series_ ABSL_GUARDED_BY(mutex_);
  // Gauges of the running worker; removed when the worker ends.
  std::map<GaugeFamily*, ::prometheus::Gauge*> worker_gauges_
      ABSL_GUARDED_BY(mutex_);
  // Gauges of the machine, by metric.
  std::map<const Metric*, ::prometheus::Gauge*> host_gauges_
      ABSL_GUARDED_BY(mutex_);
  jobs::PauseReasons pausing_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace mpsd::prometheus

#endif  // MPSD_SERVER_PROMETHEUS_JOB_METRICS_H_
