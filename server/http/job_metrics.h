// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_HTTP_JOB_METRICS_H_
#define MPSD_SERVER_HTTP_JOB_METRICS_H_

#include <prometheus/collectable.h>
#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <cstddef>
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
#include "server/http/families.h"
#include "server/http/names.h"
#include "server/http/queue_metrics.h"
#include "server/http/worker_metrics.h"

namespace mpsd::prometheus {

// Shows the scheduler's reports as Prometheus series. Thread-safe.
class JobMetrics final : public jobs::ExportedMetrics,
                         public ::prometheus::Collectable {
 public:
  // Devices with a label of their own.
  static constexpr size_t kMostDevices = 8;

  struct Options {
    std::map<std::string, std::string> build_info;  // label → value
    // How long Collect() returns the series of a job that has ended, unless
    // kMostLingering jobs end after it.
    absl::Duration linger = absl::Minutes(10);
    // The metrics show only the public part of a job: no name, model and task,
    // and no results of its training.
    bool private_jobs = false;
  };

  // The maximum number of ended jobs whose series are kept: a client that
  // submits a thousand jobs that fail at once does not slow down scrapes.
  static constexpr size_t kMostLingering = 100;

  JobMetrics(const Options& options, const base::Clock& clock);

  void JobCounts(const std::map<jobs::State, int64_t>& jobs) override;
  void QueueChanged(const jobs::QueueDepth& depth) override;
  void JobStarted(const jobs::StartedJob& job) override;
  void DeviceOpened(const std::string& job_id,
                    const std::string& device) override;
  void StageBegan(const std::string& stage) override;
  void WorkerHalts(bool halts) override;
  void StepFinished(const std::string& job_id,
                    const jobs::Progress& progress) override;
  void Evaluated(const std::string& job_id, const std::string& device,
                 const jobs::Evaluated& evaluated) override;
  void CheckpointWritten(const std::string& job_id, const std::string& device,
                         double seconds) override;
  void WorkerExited(jobs::ExitReason reason) override;
  void JobReturned(jobs::ExitReason reason) override;
  void HostRead(const host::Reading& reading) override;
  void Paused(const jobs::PauseReasons& reasons) override;
  void Held(const jobs::Holds& holds) override;
  void JobEnded(const std::string& job_id, jobs::State state) override;
  void JobDeleted(const std::string& job_id) override;

  // A notification left its queue with `result`, by the words of
  // names.h.
  void Notified(const std::string& result) {
    notifications_.Add({{"result", result}}).Increment();
  }

  // Drops the series of jobs that ended more than `linger` ago, as JobEnded
  // does if nothing collects. Adds the system's counters for this process.
  std::vector<::prometheus::MetricFamily> Collect() const override;

  // The number of jobs whose series are kept.
  size_t job_series() const {
    absl::MutexLock lock(&mutex_);
    return series_.size();
  }

 private:
  using GaugeFamily = ::prometheus::Family<::prometheus::Gauge>;
  using CounterFamily = ::prometheus::Family<::prometheus::Counter>;
  using HistogramFamily = ::prometheus::Family<::prometheus::Histogram>;

  // The series of one job.
  struct JobSeries {
    ::prometheus::Gauge* info = nullptr;
    std::string device;  // of the series below
    // By family and label "metric".
    std::map<std::pair<GaugeFamily*, std::string>, ::prometheus::Gauge*> gauges;
    std::optional<absl::Duration> ended_at;           // monotonic
    std::map<std::string, int64_t> cpu_fallback_ops;  // counted so far
  };

  // A worker's device as a label.
  std::string DeviceLabel(const std::string& device)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The series of the job, with the label `device` from now on; an unknown
  // device keeps the current one.
  JobSeries& SeriesOn(const std::string& job_id, const std::string& device)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Remove(const JobSeries& series) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Set(const std::string& job_id, const std::string& device,
           GaugeFamily& family, double value, const std::string& metric = "")
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetStep(const std::string& job_id, const std::string& device,
               const jobs::Progress& progress)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetWorker(const std::string& device, GaugeFamily& family, double value)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountFallbacks(const std::string& job_id, const std::string& device,
                      const jobs::Progress& progress)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetHost(const Metric& metric, std::optional<double> value)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropEnded() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Called for each job that ends, so that there is at most one too many.
  void DropBeyondMost() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const absl::Duration linger_;
  const bool private_jobs_;
  const base::Clock& clock_;
  ::prometheus::Registry registry_;
  mutable QueueMetrics queue_ ABSL_GUARDED_BY(mutex_);
  mutable WorkerMetrics worker_ ABSL_GUARDED_BY(mutex_);
  mutable ReasonMetrics pauses_ ABSL_GUARDED_BY(mutex_);
  mutable ReasonMetrics holds_ ABSL_GUARDED_BY(mutex_);
  LabelCap devices_ ABSL_GUARDED_BY(mutex_){kMostDevices};
  GaugeFamily &jobs_, &info_, &last_step_, &last_checkpoint_, &eval_loss_,
      &eval_metric_;
  // Keyed by the field of a step that the gauge shows.
  std::vector<std::pair<std::string_view, GaugeFamily*>> step_gauges_,
      memory_gauges_;
  CounterFamily &ended_, &steps_, &tokens_, &exits_, &returns_, &fallbacks_,
      &notifications_;
  HistogramFamily &queue_wait_, &step_, &checkpoint_;

  mutable absl::Mutex mutex_;
  mutable std::map<std::string, JobSeries> series_ ABSL_GUARDED_BY(mutex_);
  // Gauges of the running worker; removed when the worker ends.
  std::map<GaugeFamily*, ::prometheus::Gauge*> worker_gauges_
      ABSL_GUARDED_BY(mutex_);
  // Gauges of the machine, by metric.
  std::map<const Metric*, ::prometheus::Gauge*> host_gauges_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace mpsd::prometheus

#endif  // MPSD_SERVER_HTTP_JOB_METRICS_H_
