// SPDX-License-Identifier: Apache-2.0
#include "server/http/worker_metrics.h"

#include <cmath>

#include "server/http/families.h"

namespace mpsd::prometheus {
namespace {

// From a small model whose files the system has cached to a 7B and its data
// set, read for the first time from a slow disk.
const ::prometheus::Histogram::BucketBoundaries kStartBuckets = {
    0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600};

}  // namespace

WorkerMetrics::WorkerMetrics(::prometheus::Registry& registry)
    : seconds_(Counters(registry, kPhaseSeconds)),
      start_seconds_(Histograms(registry, kJobStart)),
      start_(Gauges(registry, kAttemptStart)) {}

void WorkerMetrics::Started(const jobs::StartedJob& job, absl::Time time,
                            absl::Duration now) {
  Exited(now);
  running_ = Running{jobs::PhaseClock(now),
                     now,
                     "",
                     false,
                     job.time_left,
                     &start_.Add({{"job_id", job.id}})};
  running_->start->Set(UnixSeconds(time));
}

void WorkerMetrics::DeviceOpened(const std::string& device) {
  if (running_) running_->device = device;
}

void WorkerMetrics::StageBegan(const std::string& stage, absl::Duration now) {
  if (running_) running_->clock.Staged(stage, now);
}

void WorkerMetrics::Halts(bool halts, absl::Duration now) {
  if (!running_) return;
  if (halts) {
    running_->clock.Halted(now);
  } else {
    running_->clock.Resumed(now);
  }
}

void WorkerMetrics::Stepped(const jobs::Progress& progress,
                            const std::string& device, absl::Duration now) {
  if (!running_) return;
  running_->device = device;
  running_->clock.Stepped(progress, now);
  running_->time_left.reset();
  if (std::isfinite(progress.eta_seconds)) {
    running_->time_left = absl::Seconds(progress.eta_seconds);
  }
  if (std::exchange(running_->stepped, true)) return;
  start_seconds_.Add({{"device", device}}, kStartBuckets)
      .Observe(absl::ToDoubleSeconds(now - running_->started));
}

void WorkerMetrics::Evaluated(double seconds, absl::Duration now) {
  if (running_) running_->clock.Evaluated(seconds, now);
}

void WorkerMetrics::Saved(double seconds, absl::Duration now) {
  if (running_) running_->clock.Saved(seconds, now);
}

void WorkerMetrics::Exited(absl::Duration now) {
  if (!running_) return;
  const std::string device =
      running_->device.empty() ? kUnknownDevice : running_->device;
  for (const auto& [phase, time] : running_->clock.Spent(now)) {
    ended_[device][phase] += time;
  }
  start_.Remove(running_->start);
  running_.reset();
  Show(device, {});
}

void WorkerMetrics::Advance(absl::Duration now) {
  if (!running_ || running_->device.empty()) return;
  Show(running_->device, running_->clock.Spent(now));
}

std::optional<absl::Duration> WorkerMetrics::TimeLeft() const {
  return running_ ? running_->time_left : absl::ZeroDuration();
}

void WorkerMetrics::Show(const std::string& device, const PhaseTimes& more) {
  PhaseTimes times = ended_[device];
  for (const auto& [phase, time] : more) times[phase] += time;
  for (jobs::Phase phase : jobs::kAllPhases) {
    ::prometheus::Counter& shown =
        seconds_.Add({{"device", device}, {"phase", std::string(Name(phase))}});
    // A report may move time away from the phase that was shown as current. A
    // counter never falls, so it waits until its phase has caught up.
    const double growth = absl::ToDoubleSeconds(times[phase]) - shown.Value();
    if (growth > 0) shown.Increment(growth);
  }
}

}  // namespace mpsd::prometheus
