// SPDX-License-Identifier: Apache-2.0
#include "server/http/job_metrics.h"

#include <algorithm>
#include <cmath>

#include "core/report/report.h"
#include "server/jobs/attempt_end.h"

namespace mpsd::prometheus {

void QueueMetrics::Set(const jobs::QueueDepth& depth) {
  std::map<std::string, int64_t> priorities, owners;
  for (const auto& [priority, jobs] : depth.by_priority) {
    priorities[priorities_.Of(std::to_string(priority))] += jobs;
  }
  for (const auto& [owner, jobs] : depth.by_owner) {
    // Prometheus treats an empty label as none.
    owners[owners_.Of(owner.empty() ? "unknown" : BoundedLabel(owner))] += jobs;
  }
  SetAll(Gauges(registry_, Named("mpsd_queue_priority_jobs")), "priority",
         priorities, priority_series_);
  SetAll(Gauges(registry_, Named("mpsd_queue_owner_jobs")), "owner", owners,
         owner_series_);
  oldest_ = depth.oldest;
  queued_time_left_ = depth.time_left;
}

void QueueMetrics::SetAge(absl::Time now) const {
  // Setting back the wall clock makes no age negative.
  const absl::Duration age =
      oldest_ ? std::max(now - *oldest_, absl::ZeroDuration())
              : absl::ZeroDuration();
  SetGauge(registry_, "mpsd_queue_oldest_age_seconds", {},
           absl::ToDoubleSeconds(age));
}

void QueueMetrics::SetEta(std::optional<absl::Duration> running) {
  GaugeFamily& eta = Gauges(registry_, Named("mpsd_queue_eta_seconds"));
  if (!running || !queued_time_left_) {
    if (eta_ != nullptr) eta.Remove(std::exchange(eta_, nullptr));
    return;
  }
  if (eta_ == nullptr) eta_ = &eta.Add({});
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

namespace {

using ::prometheus::Histogram;

// The device of a worker that has not reported it.
constexpr char kUnknownDevice[] = "unknown";

// From the 20 ms of a model of 135M parameters to the 13 minutes of a 7B's
// largest batches.
const Histogram::BucketBoundaries kStepBuckets = {
    0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 400, 800};
const Histogram::BucketBoundaries kCheckpointBuckets = {
    0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300};
// From a small model whose files the system has cached to a 7B and its data
// set, read for the first time from a slow disk.
const Histogram::BucketBoundaries kStartBuckets = {
    0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600};
const Histogram::BucketBoundaries kWaitBuckets = {
    0.1, 1, 5, 15, 60, 300, 900, 3600, 14400, 43200, 86400, 604800};

std::map<std::string, std::string> EndLabels(jobs::ExitReason reason) {
  return {{"class", SnakeCase(Name(jobs::BlamedPartyFor(reason)))},
          {"reason", SnakeCase(Name(reason))}};
}

std::set<std::string> ReasonLabels(const auto& reasons) {
  std::set<std::string> labels;
  for (const auto reason : reasons) labels.insert(SnakeCase(Name(reason)));
  return labels;
}

std::map<std::string, std::string> StateLabel(jobs::State state) {
  return {{"state", SnakeCase(Name(state))}};
}

std::map<std::string, std::string> GaugeLabels(const std::string& job_id,
                                               const std::string& device,
                                               const std::string& metric) {
  std::map<std::string, std::string> labels = {{"job_id", job_id},
                                               {"device", device}};
  if (!metric.empty()) labels["metric"] = metric;
  return labels;
}

// The label of what a step reports of its worker, not of its job.
constexpr std::string_view kWorkersLabel = "device";

// Whether this number of a private job's step is public, as in
// server/rpc/convert.cc.
bool IsPublic(std::string_view field) {
  return field == "step" || field == "total_steps" || field == "eta_seconds";
}

// Collects the numbers of a step by their fields' names.
class Numbers {
 public:
  const double* Find(std::string_view field) const {
    const auto number = numbers_.find(field);
    return number == numbers_.end() ? nullptr : &number->second;
  }

  void operator()(const char* name, double value) { numbers_[name] = value; }
  void operator()(const char* name, int64_t value) {
    numbers_[name] = static_cast<double>(value);
  }
  template <typename T>
  void operator()(const char* name, const std::optional<T>& value) {
    if (value.has_value()) (*this)(name, *value);
  }
  void operator()(const char*, const report::MemoryCounters& value) {
    Fields(*this, value, &value);
  }
  // Fields that are not numbers; cpu_fallback_ops has its own counter.
  void operator()(const char*, const std::string&) {}
  void operator()(const char*, const report::Counts&) {}
  // These have a label.
  void operator()(const char*, const report::Metrics&) {}

 private:
  std::map<std::string_view, double> numbers_;
};

// The number of an enum or a flag.
template <typename T>
std::optional<double> Number(const std::optional<T>& value) {
  if (!value) return std::nullopt;
  return static_cast<double>(*value);
}

}  // namespace

JobMetrics::JobMetrics(const Options& options, const base::Clock& clock)
    : linger_(options.linger),
      private_jobs_(options.private_jobs),
      clock_(clock),
      queue_(registry_),
      pauses_(registry_,
              {Named("mpsd_paused"), Named("mpsd_pauses_total"),
               Named("mpsd_paused_seconds_total")},
              ReasonLabels(jobs::kAllPauseReasons)),
      holds_(registry_,
             {Named("mpsd_held"), Named("mpsd_holds_total"),
              Named("mpsd_held_seconds_total")},
             ReasonLabels(jobs::kAllHoldReasons)) {
  SetGauge(registry_, "mpsd_build_info", options.build_info, 1);
  // Known series start at 0, so that a rate sees their first increment.
  Histograms(registry_, Named("mpsd_job_queue_wait_seconds"))
      .Add({}, kWaitBuckets);
  for (jobs::ExitReason reason : jobs::kAllExitReasons) {
    Count(registry_, "mpsd_worker_exits_total", EndLabels(reason), 0);
    if (!jobs::MayReturn(reason)) continue;
    Count(registry_, "mpsd_job_retries_total", EndLabels(reason), 0);
  }
  for (jobs::State state : jobs::kAllStates) {
    if (!jobs::IsFinal(state)) continue;
    Count(registry_, "mpsd_jobs_ended_total", StateLabel(state), 0);
  }
  for (const char* result : {"sent", "failed", "dropped"}) {
    Count(registry_, "mpsd_notifications_total", {{"result", result}}, 0);
  }
  JobCounts({});
}

void JobMetrics::JobCounts(const std::map<jobs::State, int64_t>& jobs) {
  for (jobs::State state : jobs::kAllStates) {
    auto count = jobs.find(state);
    SetGauge(registry_, "mpsd_jobs", StateLabel(state),
             count == jobs.end() ? 0 : static_cast<double>(count->second));
  }
}

void JobMetrics::QueueChanged(const jobs::QueueDepth& depth) {
  absl::MutexLock lock(&mutex_);
  queue_.Set(depth);
}

void JobMetrics::JobStarted(const jobs::StartedJob& job) {
  Histograms(registry_, Named("mpsd_job_queue_wait_seconds"))
      .Add({}, kWaitBuckets)
      .Observe(absl::ToDoubleSeconds(job.queue_wait));
  absl::MutexLock lock(&mutex_);
  DropEnded();
  StartWorker(job);
  JobSeries& series = series_[job.id];
  series.ended_at.reset();  // the job was retried
  if (series.info == nullptr) {
    const auto label = [this](const std::string& text) {
      return private_jobs_ ? "" : BoundedLabel(text);
    };
    series.info = &Gauges(registry_, Named("mpsd_job_info"))
                       .Add({{"job_id", job.id},
                             {"name", label(job.name)},
                             {"owner", BoundedLabel(job.owner)},
                             {"task", label(job.task)},
                             {"model", label(job.model)}});
  }
  series.info->Set(1);
}

void JobMetrics::DeviceOpened(const std::string& job_id,
                              const std::string& device) {
  absl::MutexLock lock(&mutex_);
  if (worker_) worker_->device = DeviceLabel(device);
  SeriesOn(job_id, DeviceLabel(device));
}

void JobMetrics::StageBegan(const std::string& stage) {
  absl::MutexLock lock(&mutex_);
  if (worker_) worker_->clock.Staged(stage, clock_.Monotonic());
}

void JobMetrics::WorkerHalts(bool halts) {
  absl::MutexLock lock(&mutex_);
  if (!worker_) return;
  if (halts) {
    worker_->clock.Halted(clock_.Monotonic());
  } else {
    worker_->clock.Resumed(clock_.Monotonic());
  }
}

void JobMetrics::StepFinished(const std::string& job_id,
                              const jobs::Progress& progress) {
  absl::MutexLock lock(&mutex_);
  const std::string device = DeviceLabel(progress.device);
  Histograms(registry_, Named("mpsd_step_seconds"))
      .Add({{"device", device}}, kStepBuckets)
      .Observe(progress.seconds);
  Count(registry_, "mpsd_steps_total", {{"device", device}});
  Count(registry_, "mpsd_tokens_total", {{"device", device}},
        static_cast<double>(progress.tokens));
  DropEnded();
  StepWorker(progress, device);
  series_[job_id].ended_at.reset();  // the job was retried
  SetStep(job_id, device, progress);
  Set(job_id, device, Named("mpsd_job_last_step_timestamp_seconds"),
      UnixSeconds(clock_.Now()));
  CountFallbacks(job_id, device, progress);
}

void JobMetrics::Evaluated(const std::string& job_id, const std::string& device,
                           const jobs::Evaluated& evaluated) {
  absl::MutexLock lock(&mutex_);
  if (worker_) worker_->clock.Evaluated(evaluated.seconds, clock_.Monotonic());
  if (private_jobs_) return;
  const std::string label = DeviceLabel(device);
  Set(job_id, label, Named("mpsd_job_eval_loss"), evaluated.eval_loss);
  for (const auto& [metric, value] : evaluated.metrics) {
    Set(job_id, label, Named("mpsd_job_eval_metric"), value, metric);
  }
}

void JobMetrics::CheckpointWritten(const std::string& job_id,
                                   const std::string& device, double seconds) {
  absl::MutexLock lock(&mutex_);
  const std::string label = DeviceLabel(device);
  Histograms(registry_, Named("mpsd_checkpoint_seconds"))
      .Add({{"device", label}}, kCheckpointBuckets)
      .Observe(seconds);
  if (worker_) worker_->clock.Saved(seconds, clock_.Monotonic());
  Set(job_id, label, Named("mpsd_job_last_checkpoint_timestamp_seconds"),
      UnixSeconds(clock_.Now()));
}

void JobMetrics::WorkerExited(jobs::ExitReason reason) {
  Count(registry_, "mpsd_worker_exits_total", EndLabels(reason));
  absl::MutexLock lock(&mutex_);
  EndWorker();
  for (auto& [family, gauge] : worker_gauges_) family->Remove(gauge);
  worker_gauges_.clear();
}

void JobMetrics::JobReturned(jobs::ExitReason reason) {
  Count(registry_, "mpsd_job_retries_total", EndLabels(reason));
}

void JobMetrics::HostRead(const host::Reading& r) {
  absl::MutexLock lock(&mutex_);
  SetHost(Named("mpsd_host_on_battery"), Number(r.power_source));
  SetHost(Named("mpsd_host_battery_ratio"), r.battery_ratio);
  SetHost(Named("mpsd_host_low_power_mode"), Number(r.low_power_mode));
  SetHost(Named("mpsd_host_thermal_level"), Number(r.thermal));
  SetHost(Named("mpsd_host_memory_pressure_level"), Number(r.memory_pressure));
  SetHost(Named("mpsd_host_swap_used_bytes"), Number(r.swap_used_bytes));
  SetHost(Named("mpsd_host_gpu_utilization_ratio"), r.gpu_utilization_ratio);
  SetHost(Named("mpsd_host_gpu_resets"), Number(r.gpu_resets));
  SetHost(Named("mpsd_host_wired_limit_bytes"), Number(r.wired_limit_bytes));
  SetHost(Named("mpsd_host_user_idle_seconds"), r.user_idle_seconds);
}

void JobMetrics::Paused(const jobs::PauseReasons& reasons) {
  absl::MutexLock lock(&mutex_);
  pauses_.Set(ReasonLabels(reasons), clock_.Monotonic());
}

void JobMetrics::Held(const jobs::Holds& holds) {
  std::set<jobs::HoldReason> reasons;
  for (const auto& [reason, text] : holds) reasons.insert(reason);
  absl::MutexLock lock(&mutex_);
  holds_.Set(ReasonLabels(reasons), clock_.Monotonic());
}

void JobMetrics::JobEnded(const std::string& job_id, jobs::State state) {
  Count(registry_, "mpsd_jobs_ended_total", StateLabel(state));
  absl::MutexLock lock(&mutex_);
  DropEnded();
  auto series = series_.find(job_id);
  if (series == series_.end()) return;
  series->second.ended_at = clock_.Monotonic();
  DropBeyondMost();
}

void JobMetrics::JobDeleted(const std::string& job_id) {
  absl::MutexLock lock(&mutex_);
  auto series = series_.find(job_id);
  if (series == series_.end()) return;
  Remove(series->second);
  series_.erase(series);
}

void JobMetrics::Notified(const std::string& result) {
  Count(registry_, "mpsd_notifications_total", {{"result", result}});
}

std::vector<::prometheus::MetricFamily> JobMetrics::Collect() const {
  absl::MutexLock lock(&mutex_);
  DropEnded();
  queue_.SetAge(clock_.Now());
  queue_.SetEta(worker_ ? worker_->time_left : absl::ZeroDuration());
  const absl::Duration now = clock_.Monotonic();
  if (worker_ && !worker_->device.empty()) {
    ShowPhases(worker_->device, worker_->clock.Spent(now));
  }
  pauses_.Advance(now);
  holds_.Advance(now);
  std::vector<::prometheus::MetricFamily> families = registry_.Collect();
  for (::prometheus::MetricFamily& family :
       ProcessFamilies(host::ReadProcessUsage())) {
    families.push_back(std::move(family));
  }
  return families;
}

void JobMetrics::StartWorker(const jobs::StartedJob& job) {
  EndWorker();
  const absl::Duration now = clock_.Monotonic();
  worker_ = Worker{
      jobs::PhaseClock(now), now, job.time_left,
      &Gauges(registry_, Named("mpsd_job_attempt_start_timestamp_seconds"))
           .Add({{"job_id", job.id}})};
  worker_->start->Set(UnixSeconds(clock_.Now()));
}

void JobMetrics::StepWorker(const jobs::Progress& progress,
                            const std::string& device) {
  if (!worker_) return;
  const absl::Duration now = clock_.Monotonic();
  worker_->device = device;
  worker_->clock.Stepped(progress, now);
  worker_->time_left.reset();
  if (std::isfinite(progress.eta_seconds)) {
    worker_->time_left = absl::Seconds(progress.eta_seconds);
  }
  if (std::exchange(worker_->stepped, true)) return;
  Histograms(registry_, Named("mpsd_job_start_seconds"))
      .Add({{"device", device}}, kStartBuckets)
      .Observe(absl::ToDoubleSeconds(now - worker_->started));
}

void JobMetrics::EndWorker() {
  if (!worker_) return;
  const std::string device =
      worker_->device.empty() ? kUnknownDevice : worker_->device;
  for (const auto& [phase, time] : worker_->clock.Spent(clock_.Monotonic())) {
    ended_[device][phase] += time;
  }
  Gauges(registry_, Named("mpsd_job_attempt_start_timestamp_seconds"))
      .Remove(worker_->start);
  worker_.reset();
  ShowPhases(device, {});
}

void JobMetrics::ShowPhases(const std::string& device,
                            const PhaseTimes& more) const {
  PhaseTimes times = ended_[device];
  for (const auto& [phase, time] : more) times[phase] += time;
  for (jobs::Phase phase : jobs::kAllPhases) {
    ::prometheus::Counter& shown =
        Counters(registry_, Named("mpsd_phase_seconds_total"))
            .Add({{"device", device}, {"phase", std::string(Name(phase))}});
    // A report may move time away from the phase that was shown as current. A
    // counter never falls, so it waits until its phase has caught up.
    const double growth = absl::ToDoubleSeconds(times[phase]) - shown.Value();
    if (growth > 0) shown.Increment(growth);
  }
}

std::string JobMetrics::DeviceLabel(const std::string& device) {
  return device.empty() ? kUnknownDevice : devices_.Of(BoundedLabel(device));
}

// A retried job may get another device: its series move there with their
// values, so that no series names a device that the job has left.
JobMetrics::JobSeries& JobMetrics::SeriesOn(const std::string& job_id,
                                            const std::string& device) {
  JobSeries& series = series_[job_id];
  const bool is_known = device != kUnknownDevice;
  if (series.device == device || (!is_known && !series.device.empty())) {
    return series;
  }
  series.device = device;
  for (auto& [key, gauge] : series.gauges) {
    const auto& [family, metric] = key;
    const double value = gauge->Value();
    family->Remove(gauge);
    gauge = &family->Add(GaugeLabels(job_id, device, metric));
    gauge->Set(value);
  }
  return series;
}

void JobMetrics::Set(const std::string& job_id, const std::string& device,
                     const Metric& metric, double value,
                     const std::string& label) {
  GaugeFamily& family = Gauges(registry_, metric);
  JobSeries& series = SeriesOn(job_id, device);
  ::prometheus::Gauge*& gauge = series.gauges[{&family, label}];
  if (gauge == nullptr) {
    gauge = &family.Add(GaugeLabels(job_id, series.device, label));
  }
  gauge->Set(value);
}

void JobMetrics::SetStep(const std::string& job_id, const std::string& device,
                         const jobs::Progress& progress) {
  Numbers numbers;
  EventFields(numbers, progress, &progress);
  for (const Metric& metric : kMetrics) {
    const double* number = numbers.Find(metric.field);
    if (number == nullptr) continue;
    if (metric.labels == kWorkersLabel) {
      SetWorker(device, Gauges(registry_, metric), *number);
    } else if (!private_jobs_ || IsPublic(metric.field)) {
      Set(job_id, device, metric, *number);
    }
  }
  if (private_jobs_) return;
  for (const auto& [metric, value] : progress.metrics) {
    Set(job_id, device, Named("mpsd_job_step_metric"), value, metric);
  }
}

void JobMetrics::SetWorker(const std::string& device, GaugeFamily& family,
                           double value) {
  ::prometheus::Gauge*& gauge = worker_gauges_[&family];
  if (gauge == nullptr) gauge = &family.Add({{"device", device}});
  gauge->Set(value);
}

// The counts cover the whole job, and decrease when a worker resumes from a
// checkpoint.
void JobMetrics::CountFallbacks(const std::string& job_id,
                                const std::string& device,
                                const jobs::Progress& progress) {
  std::map<std::string, int64_t>& counted = series_[job_id].cpu_fallback_ops;
  for (const auto& [op, count] : progress.cpu_fallback_ops) {
    const int64_t more = count - std::exchange(counted[op], count);
    if (more <= 0) continue;
    Count(registry_, "mpsd_cpu_fallback_ops_total",
          {{"device", device}, {"op", op}}, static_cast<double>(more));
  }
}

void JobMetrics::SetHost(const Metric& metric, std::optional<double> value) {
  ::prometheus::Gauge*& gauge = host_gauges_[&metric];
  if (!value && gauge == nullptr) return;
  GaugeFamily& family = Gauges(registry_, metric);
  if (!value) {
    family.Remove(std::exchange(gauge, nullptr));
    return;
  }
  if (gauge == nullptr) gauge = &family.Add({});
  gauge->Set(*value);
}

void JobMetrics::Remove(const JobSeries& series) const {
  if (series.info != nullptr)
    Gauges(registry_, Named("mpsd_job_info")).Remove(series.info);
  for (const auto& [key, gauge] : series.gauges) key.first->Remove(gauge);
}

void JobMetrics::DropEnded() const {
  const absl::Duration now = clock_.Monotonic();
  for (auto it = series_.begin(); it != series_.end();) {
    const JobSeries& series = it->second;
    if (!series.ended_at || now - *series.ended_at < linger_) {
      ++it;
      continue;
    }
    Remove(series);
    it = series_.erase(it);
  }
}

void JobMetrics::DropBeyondMost() {
  size_t ended = 0;
  auto first = series_.end();
  for (auto it = series_.begin(); it != series_.end(); ++it) {
    if (!it->second.ended_at) continue;
    ++ended;
    if (first == series_.end() ||
        it->second.ended_at < first->second.ended_at) {
      first = it;
    }
  }
  if (ended <= kMostLingering) return;
  Remove(first->second);
  series_.erase(first);
}

}  // namespace mpsd::prometheus
