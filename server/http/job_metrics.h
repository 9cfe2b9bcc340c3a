// SPDX-License-Identifier: Apache-2.0
// The metrics of jobs: the queue, reasons that hold it, the running worker,
// each job.
#pragma once

#include <prometheus/collectable.h>
#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "server/http/families.h"
#include "server/http/names.h"
#include "server/jobs/job_queue.h"
#include "server/jobs/meters.h"
#include "server/store/job.h"

namespace mpsd::prometheus {

// The gauges of the queue. Not thread-safe.
class QueueMetrics {
 public:
  // Values with their own label; the help texts state the numbers.
  static constexpr size_t kMostPriorities = 16;
  static constexpr size_t kMostOwners = 32;

  // `registry` must outlive the QueueMetrics.
  explicit QueueMetrics(::prometheus::Registry& registry)
      : registry_(registry) {
    SetAge(absl::UnixEpoch());
  }

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

  ::prometheus::Registry& registry_;
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

  // A notification left its queue with `result`, by the words of names.h.
  void Notified(const std::string& result);

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

  // The series of one job.
  struct JobSeries {
    ::prometheus::Gauge* info = nullptr;
    std::string device;  // of the series below
    // By family and label "metric".
    std::map<std::pair<GaugeFamily*, std::string>, ::prometheus::Gauge*> gauges;
    std::optional<absl::Duration> ended_at;           // monotonic
    std::map<std::string, int64_t> cpu_fallback_ops;  // counted so far
  };

  // The running worker. Times are monotonic.
  struct Worker {
    jobs::PhaseClock clock;
    absl::Duration started;
    std::optional<absl::Duration> time_left;  // absent: unknown
    ::prometheus::Gauge* start = nullptr;
    std::string device = {};  // a label; empty while unknown
    bool stepped = false;
  };
  using PhaseTimes = std::map<jobs::Phase, absl::Duration>;

  void StartWorker(const jobs::StartedJob& job)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StepWorker(const jobs::Progress& progress, const std::string& device)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndWorker() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Shows what all workers of `device` spent, `more` by the running one.
  void ShowPhases(const std::string& device, const PhaseTimes& more) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

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
           const Metric& metric, double value, const std::string& label = "")
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
  mutable ::prometheus::Registry registry_;
  mutable QueueMetrics queue_ ABSL_GUARDED_BY(mutex_);
  std::optional<Worker> worker_ ABSL_GUARDED_BY(mutex_);
  // Of workers that ended, by device.
  mutable std::map<std::string, PhaseTimes> ended_ ABSL_GUARDED_BY(mutex_);
  mutable ReasonMetrics pauses_ ABSL_GUARDED_BY(mutex_);
  mutable ReasonMetrics holds_ ABSL_GUARDED_BY(mutex_);
  LabelCap devices_ ABSL_GUARDED_BY(mutex_){kMostDevices};

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
