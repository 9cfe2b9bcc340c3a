// SPDX-License-Identifier: Apache-2.0
// The part of the Scheduler that starts the next attempt: it looks at the
// machine and launches without the lock.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/spec/train_spec.h"
#include "server/jobs/scheduler.h"
#include "server/jobs/start_check.h"

namespace mpsd::jobs {
namespace {

// How often a job's missing path is looked for, at least.
constexpr absl::Duration kPathInterval = absl::Seconds(30);

bool AllowsCpuFallback(const std::string& spec_json) {
  const auto spec = spec::ParseTrainSpec(spec_json, "job.json");
  return spec.ok() && spec->allow_cpu_fallback;
}

}  // namespace

absl::Time Scheduler::WallTime(absl::Duration time) const {
  if (time == absl::InfiniteDuration()) return absl::InfiniteFuture();
  return parts_.clock.Now() + (time - parts_.clock.Monotonic());
}

absl::Time Scheduler::StartNext() {
  const absl::Duration now = parts_.clock.Monotonic();
  {
    absl::MutexLock lock(&mutex_);
    // HeedHost looks again.
    if (draining_ || !gate_.reasons().empty()) return absl::InfiniteFuture();
    if (machine_faults_ > 0 && !view_.empty() && now < machine_wait_) {
      return WallTime(machine_wait_);
    }
  }
  while (const std::optional<JobQueue::Entry> next = view_.Next(now)) {
    switch (TryStart(*next)) {
      case Tried::kPassedOver:
        continue;
      case Tried::kHeld:
        return WallTime(now + options_.poll_interval);
      case Tried::kStarted:
        absl::MutexLock lock(&mutex_);
        return attempt_->ended ? WallTime(now) : absl::InfiniteFuture();
    }
  }
  for (HoldReason reason :
       {HoldReason::kDevice, HoldReason::kDisk, HoldReason::kMachine}) {
    Hold(reason, "");
  }
  journal_.Write();
  return WallTime(view_.NextTime());
}

Scheduler::Tried Scheduler::TryStart(const JobQueue::Entry& entry) {
  Hold(HoldReason::kMachine, "");
  const absl::StatusOr<Job> job = parts_.store.Get(entry.id);
  if (absl::IsNotFound(job.status()) || absl::IsDataLoss(job.status())) {
    view_.Remove(entry.id);
    if (absl::IsDataLoss(job.status())) GiveUpRow(entry.id, job.status());
    journal_.Write();
    PublishCounts();
    hub_.Wake(entry.id);
    return Tried::kPassedOver;
  }
  bool ready = job.ok() ? IsReady() : Stored(job.status());
  if (ready && !HasItsFiles(*job)) {
    journal_.Write();
    return Tried::kPassedOver;
  }
  LaunchRequest request;
  if (ready) {
    Turn turn(*this);
    // Somebody may have been quicker.
    if (draining_) return Tried::kHeld;
    if (!view_.Position(entry.id)) return Tried::kPassedOver;
    ready = Start(entry).ok();
    if (ready) request = RequestFor(attempt_->run.job());
  }
  journal_.Write();
  if (!ready) return Tried::kHeld;
  Launch(request);
  hub_.Wake(entry.id);
  return Tried::kStarted;
}

bool Scheduler::IsReady() {
  const absl::Status ready = parts_.launcher.Ready();
  Hold(HoldReason::kDevice, std::string(ready.message()));
  const std::string full = FullDisk(options_.min_free_bytes, parts_.files);
  Hold(HoldReason::kDisk, full);
  return ready.ok() && full.empty();
}

bool Scheduler::HasItsFiles(const Job& job) {
  std::string lacks = MissingPath(job, parts_.files);
  if (lacks.empty()) {
    lacks = NoRoomFor(job, options_.min_free_bytes, parts_.files);
  }
  if (lacks.empty()) return true;
  if (view_.HoldOf(job.id) != lacks) {
    Log(job.id, absl::StrCat("waits: ", lacks));
  }
  view_.HoldJob(job.id, lacks,
                parts_.clock.Monotonic() +
                    std::min(kPathInterval, options_.retry.max_backoff));
  return false;
}

absl::Status Scheduler::Start(const JobQueue::Entry& entry) {
  absl::StatusOr<Job> job = parts_.store.Get(entry.id);
  if (!job.ok()) return job.status();
  absl::StatusOr<RunningJob> run = LoadRun(*std::move(job));
  if (!run.ok()) return run.status();
  const absl::Time now = parts_.clock.Now();
  run->Start(options_.boot_id, now);
  absl::Status stored = run->Flush(parts_.store);
  if (!Stored(stored)) return stored;

  view_.Remove(entry.id);
  base::Check(attempt_ == nullptr, "the device holds one attempt");
  attempt_.reset(new Attempt{.run = *std::move(run),
                             .flushed_at = parts_.clock.Monotonic()});
  parts_.metrics.JobStarted(now - entry.since);
  counts_.Ask();
  Log(entry.id,
      absl::StrCat("attempt ", attempt_->run.job().attempt, " starts"));
  return absl::OkStatus();
}

LaunchRequest Scheduler::RequestFor(const Job& job) const {
  LaunchRequest request;
  request.job_id = job.id;
  request.spec_path = parts_.files.SpecPath(job.id);
  request.output_dir = parts_.files.OutputDir(job.id);
  request.log_path = parts_.files.LogPath(job.id);
  request.hang_timeout = options_.hang_timeout;
  if (job.progress) {
    request.slowest_step = absl::Seconds(job.progress->step_seconds);
  }
  request.allow_cpu_fallback = AllowsCpuFallback(job.spec_json);
  return request;
}

void Scheduler::Launch(const LaunchRequest& request) {
  absl::StatusOr<std::unique_ptr<Worker>> worker =
      parts_.launcher.Launch(request, *this);
  Verdict verdict;
  if (!worker.ok()) {
    verdict.result.reason = ExitReason::kMachine;
    verdict.result.message = absl::StrCat("the worker could not be started: ",
                                          worker.status().message());
  }
  Turn turn(*this);
  if (!worker.ok()) return EndAttempt(verdict);
  base::Check(attempt_ && !attempt_->worker, "an attempt has one worker");
  attempt_->worker = *std::move(worker);
  if (attempt_->ended) return;
  // What came while there was nobody to tell.
  if (attempt_->run.job().cancel_requested) {
    attempt_->worker->Cancel(options_.stop_grace);
  }
  KeepAwake();
}

}  // namespace mpsd::jobs
