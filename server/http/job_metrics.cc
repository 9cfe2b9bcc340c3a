// SPDX-License-Identifier: Apache-2.0
#include "server/http/job_metrics.h"

#include <set>
#include <utility>

#include "core/report/report.h"
#include "server/jobs/attempt_end.h"
#include "server/jobs/job.h"
#include "server/http/families.h"

namespace mpsd::prometheus {
namespace {

using ::prometheus::Histogram;

// From the 20 ms of a model of 135M parameters to the 13 minutes of a 7B's
// largest batches.
const Histogram::BucketBoundaries kStepBuckets = {
    0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 400, 800};
const Histogram::BucketBoundaries kCheckpointBuckets = {
    0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300};
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
      worker_(registry_),
      pauses_(registry_, {kPaused, kPauses, kPausedSeconds},
              ReasonLabels(jobs::kAllPauseReasons)),
      holds_(registry_, {kHeld, kHolds, kHeldSeconds},
             ReasonLabels(jobs::kAllHoldReasons)),
      jobs_(Gauges(registry_, kJobs)),
      info_(Gauges(registry_, kJobInfo)),
      last_step_(Gauges(registry_, kLastStep)),
      last_checkpoint_(Gauges(registry_, kLastCheckpoint)),
      eval_loss_(Gauges(registry_, kEvalLoss)),
      eval_metric_(Gauges(registry_, kEvalMetric)),
      ended_(Counters(registry_, kJobsEnded)),
      steps_(Counters(registry_, kSteps)),
      tokens_(Counters(registry_, kTokens)),
      exits_(Counters(registry_, kWorkerExits)),
      returns_(Counters(registry_, kJobRetries)),
      fallbacks_(Counters(registry_, kCpuFallbacks)),
      notifications_(Counters(registry_, kNotifications)),
      queue_wait_(Histograms(registry_, kQueueWait)),
      step_(Histograms(registry_, kStep)),
      checkpoint_(Histograms(registry_, kCheckpoint)) {
  for (const auto& [field, metric] : kStepGauges) {
    step_gauges_.emplace_back(field, &Gauges(registry_, metric));
  }
  for (const auto& [field, metric] : kMemoryGauges) {
    memory_gauges_.emplace_back(field, &Gauges(registry_, metric));
  }
  Gauges(registry_, kBuildInfo).Add(options.build_info).Set(1);
  // Known series start at 0, so that a rate sees their first increment.
  queue_wait_.Add({}, kWaitBuckets);
  for (jobs::ExitReason reason : jobs::kAllExitReasons) {
    exits_.Add(EndLabels(reason));
    if (jobs::MayReturn(reason)) returns_.Add(EndLabels(reason));
  }
  for (jobs::State state : jobs::kAllStates) {
    if (jobs::IsFinal(state)) ended_.Add(StateLabel(state));
  }
  for (const char* result : {"sent", "failed", "dropped"}) {
    notifications_.Add({{"result", result}});
  }
  JobCounts({});
}

void JobMetrics::JobCounts(const std::map<jobs::State, int64_t>& jobs) {
  for (jobs::State state : jobs::kAllStates) {
    auto count = jobs.find(state);
    jobs_.Add(StateLabel(state))
        .Set(count == jobs.end() ? 0 : static_cast<double>(count->second));
  }
}

void JobMetrics::QueueChanged(const jobs::QueueDepth& depth) {
  absl::MutexLock lock(&mutex_);
  queue_.Set(depth);
}

void JobMetrics::JobStarted(const jobs::StartedJob& job) {
  queue_wait_.Add({}, kWaitBuckets)
      .Observe(absl::ToDoubleSeconds(job.queue_wait));
  absl::MutexLock lock(&mutex_);
  DropEnded();
  worker_.Started(job, clock_.Now(), clock_.Monotonic());
  JobSeries& series = series_[job.id];
  series.ended_at.reset();  // the job was retried
  if (series.info == nullptr) {
    const auto label = [this](const std::string& text) {
      return private_jobs_ ? "" : BoundedLabel(text);
    };
    series.info = &info_.Add({{"job_id", job.id},
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
  worker_.DeviceOpened(DeviceLabel(device));
  SeriesOn(job_id, DeviceLabel(device));
}

void JobMetrics::StageBegan(const std::string& stage) {
  absl::MutexLock lock(&mutex_);
  worker_.StageBegan(stage, clock_.Monotonic());
}

void JobMetrics::WorkerHalts(bool halts) {
  absl::MutexLock lock(&mutex_);
  worker_.Halts(halts, clock_.Monotonic());
}

void JobMetrics::StepFinished(const std::string& job_id,
                              const jobs::Progress& progress) {
  absl::MutexLock lock(&mutex_);
  const std::string device = DeviceLabel(progress.device);
  step_.Add({{"device", device}}, kStepBuckets).Observe(progress.seconds);
  steps_.Add({{"device", device}}).Increment();
  tokens_.Add({{"device", device}})
      .Increment(static_cast<double>(progress.tokens));
  DropEnded();
  worker_.Stepped(progress, device, clock_.Monotonic());
  series_[job_id].ended_at.reset();  // the job was retried
  SetStep(job_id, device, progress);
  Set(job_id, device, last_step_, UnixSeconds(clock_.Now()));
  CountFallbacks(job_id, device, progress);
}

void JobMetrics::Evaluated(const std::string& job_id, const std::string& device,
                           const jobs::Evaluated& evaluated) {
  absl::MutexLock lock(&mutex_);
  worker_.Evaluated(evaluated.seconds, clock_.Monotonic());
  if (private_jobs_) return;
  const std::string label = DeviceLabel(device);
  Set(job_id, label, eval_loss_, evaluated.eval_loss);
  for (const auto& [metric, value] : evaluated.metrics) {
    Set(job_id, label, eval_metric_, value, metric);
  }
}

void JobMetrics::CheckpointWritten(const std::string& job_id,
                                   const std::string& device, double seconds) {
  absl::MutexLock lock(&mutex_);
  const std::string label = DeviceLabel(device);
  checkpoint_.Add({{"device", label}}, kCheckpointBuckets).Observe(seconds);
  worker_.Saved(seconds, clock_.Monotonic());
  Set(job_id, label, last_checkpoint_, UnixSeconds(clock_.Now()));
}

void JobMetrics::WorkerExited(jobs::ExitReason reason) {
  exits_.Add(EndLabels(reason)).Increment();
  absl::MutexLock lock(&mutex_);
  worker_.Exited(clock_.Monotonic());
  for (auto& [family, gauge] : worker_gauges_) family->Remove(gauge);
  worker_gauges_.clear();
}

void JobMetrics::JobReturned(jobs::ExitReason reason) {
  returns_.Add(EndLabels(reason)).Increment();
}

void JobMetrics::HostRead(const host::Reading& r) {
  absl::MutexLock lock(&mutex_);
  SetHost(kHostOnBattery, Number(r.power_source));
  SetHost(kHostBattery, r.battery_ratio);
  SetHost(kHostLowPower, Number(r.low_power_mode));
  SetHost(kHostThermal, Number(r.thermal));
  SetHost(kHostMemoryPressure, Number(r.memory_pressure));
  SetHost(kHostSwap, Number(r.swap_used_bytes));
  SetHost(kHostGpu, r.gpu_utilization_ratio);
  SetHost(kHostGpuResets, Number(r.gpu_resets));
  SetHost(kHostWiredLimit, Number(r.wired_limit_bytes));
  SetHost(kHostUserIdle, r.user_idle_seconds);
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
  ended_.Add(StateLabel(state)).Increment();
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

std::vector<::prometheus::MetricFamily> JobMetrics::Collect() const {
  absl::MutexLock lock(&mutex_);
  DropEnded();
  queue_.SetAge(clock_.Now());
  queue_.SetEta(worker_.TimeLeft());
  const absl::Duration now = clock_.Monotonic();
  worker_.Advance(now);
  pauses_.Advance(now);
  holds_.Advance(now);
  std::vector<::prometheus::MetricFamily> families = registry_.Collect();
  for (::prometheus::MetricFamily& family :
       ProcessFamilies(host::ReadProcessUsage())) {
    families.push_back(std::move(family));
  }
  return families;
}

std::string JobMetrics::DeviceLabel(const std::string& device) {
  return device.empty() ? WorkerMetrics::kUnknownDevice
                        : devices_.Of(BoundedLabel(device));
}

// A retried job may get another device: its series move there with their
// values, so that no series names a device that the job has left.
JobMetrics::JobSeries& JobMetrics::SeriesOn(const std::string& job_id,
                                            const std::string& device) {
  JobSeries& series = series_[job_id];
  const bool is_known = device != WorkerMetrics::kUnknownDevice;
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
                     GaugeFamily& family, double value,
                     const std::string& metric) {
  JobSeries& series = SeriesOn(job_id, device);
  ::prometheus::Gauge*& gauge = series.gauges[{&family, metric}];
  if (gauge == nullptr) {
    gauge = &family.Add(GaugeLabels(job_id, series.device, metric));
  }
  gauge->Set(value);
}

void JobMetrics::SetStep(const std::string& job_id, const std::string& device,
                         const jobs::Progress& progress) {
  Numbers numbers;
  EventFields(numbers, progress, &progress);
  for (const auto& [field, family] : step_gauges_) {
    if (private_jobs_ && !IsPublic(field)) continue;
    if (const double* number = numbers.Find(field)) {
      Set(job_id, device, *family, *number);
    }
  }
  for (const auto& [field, family] : memory_gauges_) {
    if (const double* number = numbers.Find(field)) {
      SetWorker(device, *family, *number);
    }
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
    fallbacks_.Add({{"device", device}, {"op", op}})
        .Increment(static_cast<double>(more));
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
  if (series.info != nullptr) info_.Remove(series.info);
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
