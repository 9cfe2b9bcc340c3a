// SPDX-License-Identifier: Apache-2.0
// The part of the Scheduler that holds the device: Tick() and what the worker
// reports.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/spec/train_spec.h"
#include "server/jobs/scheduler.h"

namespace mpsd::jobs {
namespace {

bool AllowsCpuFallback(const std::string& spec_json) {
  const auto spec = spec::ParseTrainSpec(spec_json, "job.json");
  return spec.ok() && spec->allow_cpu_fallback;
}

}  // namespace

absl::Time Scheduler::Tick() {
  const absl::Time look_again = HeedHost();
  return std::min(look_again, Reap() ? StartNext() : TendAttempt());
}

absl::Time Scheduler::TendAttempt() {
  std::string id;
  {
    absl::MutexLock lock(&mutex_);
    const absl::Time now = parts_.clock.Now();
    if (attempt_->ended) return now + options_.poll_interval;
    if (!attempt_->run.dirty()) return absl::InfiniteFuture();
    const absl::Duration age = parts_.clock.Monotonic() - attempt_->flushed_at;
    if (age < options_.progress_interval) {
      return now + (options_.progress_interval - age);
    }
    if (!FlushAttempt()) return now + options_.poll_interval;
    id = attempt_->run.job().id;
  }
  hub_.Wake(id);
  return absl::InfiniteFuture();
}

bool Scheduler::Reap() {
  std::unique_ptr<Attempt> over;
  {
    absl::MutexLock lock(&mutex_);
    if (!attempt_) return true;
    if (!attempt_->ended || !FlushAttempt()) return false;
    over = std::move(attempt_);
  }
  // Joins the worker's thread, which may be on its way out of OnExit: not under
  // the lock.
  over.reset();
  return true;
}

absl::Time Scheduler::StartNext() {
  const absl::Time now = parts_.clock.Now();
  std::string id;
  {
    absl::MutexLock lock(&mutex_);
    // HeedHost looks again.
    if (draining_ || !gate_.reasons().empty()) return absl::InfiniteFuture();
    const std::optional<JobQueue::Entry> next = queue_.Next(now);
    const absl::Status ready =
        next ? parts_.launcher.Ready() : absl::OkStatus();
    Hold(std::string(ready.message()));
    if (!next) return queue_.NextTime();
    if (!ready.ok()) return now + options_.poll_interval;
    if (absl::Status s = Start(*next); !s.ok()) {
      options_.log(
          absl::StrCat("cannot start job ", next->id, ": ", s.message()));
      return now + options_.poll_interval;
    }
    id = next->id;
  }
  hub_.Wake(id);
  absl::MutexLock lock(&mutex_);
  return attempt_->ended ? now : absl::InfiniteFuture();
}

void Scheduler::Hold(const std::string& why) {
  if (info_.hold == why) return;
  info_.hold = why;
  if (!why.empty()) options_.log("no job starts: " + why);
}

absl::Status Scheduler::Start(const JobQueue::Entry& entry) {
  absl::StatusOr<Job> job = parts_.store.Get(entry.id);
  if (!job.ok()) return job.status();
  absl::StatusOr<RunningJob> run = LoadRun(*std::move(job));
  if (!run.ok()) return run.status();
  const absl::Time now = parts_.clock.Now();
  run->Start(now);
  if (absl::Status s = run->Flush(parts_.store); !s.ok()) return s;

  queue_.Remove(entry.id);
  attempt_.reset(new Attempt{*std::move(run),
                             nullptr,
                             parts_.clock.Monotonic(),
                             false,
                             std::nullopt,
                             {},
                             nullptr});
  parts_.metrics.JobStarted(now - entry.since);
  PublishCounts();
  Log(entry.id,
      absl::StrCat("attempt ", attempt_->run.job().attempt, " starts"));
  Launch();
  return absl::OkStatus();
}

void Scheduler::Launch() {
  const std::string& id = attempt_->run.job().id;
  LaunchRequest request;
  request.job_id = id;
  request.spec_path = parts_.files.SpecPath(id);
  request.output_dir = parts_.files.OutputDir(id);
  request.log_path = parts_.files.LogPath(id);
  request.hang_timeout = options_.hang_timeout;
  if (const auto& earlier = attempt_->run.job().progress) {
    request.slowest_step = absl::Seconds(earlier->step_seconds);
  }
  request.allow_cpu_fallback = AllowsCpuFallback(attempt_->run.job().spec_json);
  absl::StatusOr<std::unique_ptr<Worker>> worker =
      parts_.launcher.Launch(request, *this);
  if (worker.ok()) {
    attempt_->worker = *std::move(worker);
    KeepAwake();
    return;
  }
  Result result;
  result.reason = ExitReason::kCrashed;
  result.message = absl::StrCat("the worker could not be started: ",
                                worker.status().message());
  EndAttempt(result);
}

void Scheduler::Drain() {
  absl::MutexLock lock(&mutex_);
  draining_ = true;
  if (attempt_ && attempt_->worker && !attempt_->ended &&
      !attempt_->run.job().cancel_requested) {
    Log(attempt_->run.job().id, "mpsd stops: asked for a checkpoint");
    attempt_->worker->Preempt(options_.stop_grace);
  }
}

bool Scheduler::Idle() const {
  absl::MutexLock lock(&mutex_);
  return attempt_ == nullptr;
}

void Scheduler::OnHello(const Identity& identity) {
  absl::MutexLock lock(&mutex_);
  info_.worker_version = identity.worker_version;
  info_.torch_version = identity.torch_version;
  Log(attempt_->run.job().id,
      absl::StrCat("worker ", identity.worker_version, ", torch ",
                   identity.torch_version, ", pid ", identity.pid));
}

void Scheduler::OnProgress(const Progress& progress) {
  std::string id;
  bool held_back = false;
  {
    absl::MutexLock lock(&mutex_);
    id = attempt_->run.job().id;
    info_.device = progress.device;
    info_.memory = progress.memory;
    attempt_->run.Progressed(progress, parts_.clock.Now());
    parts_.metrics.StepFinished(id, *attempt_->run.job().progress);
    const absl::Duration age = parts_.clock.Monotonic() - attempt_->flushed_at;
    const bool last = progress.step == progress.total_steps;
    held_back = age < options_.progress_interval && !last;
    if (!held_back) FlushAttempt();
  }
  if (held_back) {
    options_.on_change();  // Tick() writes it where no later step does
  } else {
    hub_.Wake(id);
  }
}

void Scheduler::OnEvaluated(const jobs::Evaluated& evaluated) {
  std::string id;
  {
    absl::MutexLock lock(&mutex_);
    id = attempt_->run.job().id;
    attempt_->run.Evaluated(evaluated, parts_.clock.Now());
    parts_.metrics.Evaluated(id, Device(), evaluated);
    FlushAttempt();
  }
  hub_.Wake(id);
}

void Scheduler::OnCheckpoint(const Checkpoint& checkpoint,
                             const std::vector<std::string>& removed_paths) {
  std::string id;
  {
    absl::MutexLock lock(&mutex_);
    id = attempt_->run.job().id;
    Checkpoint stamped = checkpoint;
    stamped.create_time = parts_.clock.Now();
    absl::Status added = parts_.store.AddCheckpoint(id, stamped, removed_paths);
    if (!added.ok()) Log(id, absl::StrCat("checkpoint: ", added.message()));
    attempt_->run.CheckpointWritten(stamped, stamped.create_time);
    parts_.metrics.CheckpointWritten(Device(), checkpoint.seconds);
    FlushAttempt();
  }
  hub_.Wake(id);
}

void Scheduler::OnHeartbeat(const std::string& stage, double fraction) {
  static_cast<void>(fraction);
  if (stage.empty()) return;  // for the hang limit alone
  std::string id;
  {
    absl::MutexLock lock(&mutex_);
    id = attempt_->run.job().id;
    attempt_->run.Staged(stage, parts_.clock.Now());
    FlushAttempt();
  }
  hub_.Wake(id);
}

void Scheduler::OnWarning(const std::string& text) {
  std::string id;
  {
    absl::MutexLock lock(&mutex_);
    id = attempt_->run.job().id;
    attempt_->run.Warned(text, parts_.clock.Now());
    FlushAttempt();
  }
  hub_.Wake(id);
}

void Scheduler::OnExit(const Result& result) {
  std::string id;
  {
    absl::MutexLock lock(&mutex_);
    id = attempt_->run.job().id;
    EndAttempt(result);
  }
  hub_.Wake(id);
  options_.on_change();
}

void Scheduler::EndAttempt(const Result& result) {
  RunningJob& run = attempt_->run;
  const absl::Time now = parts_.clock.Now();
  NextState next = DecideNext(options_.retry, run.job(), result, now);
  if (next.state == State::kQueued && !attempt_->returned_for.empty()) {
    next.message = absl::StrCat("paused (", Describe(attempt_->returned_for),
                                "), goes on by itself: ", next.message);
  }
  run.Ended(result, next, now);
  attempt_->ended = true;
  attempt_->paused.reset();
  attempt_->awake.reset();
  Log(run.job().id,
      absl::StrCat("attempt ", run.job().attempt,
                   " ended: ", std::string(Name(result.reason)),
                   ", the job is ", std::string(Name(next.state)),
                   next.message.empty() ? "" : ": ", next.message));
  parts_.metrics.WorkerExited(result.reason);
  if (next.state == State::kQueued) {
    Enqueue(run.job(), now);
  } else {
    parts_.metrics.JobEnded(run.job().id);
  }
  FlushAttempt();
  PublishCounts();
}

bool Scheduler::FlushAttempt() {
  absl::Status status = attempt_->run.Flush(parts_.store);
  attempt_->flushed_at = parts_.clock.Monotonic();
  if (status.ok()) return true;
  options_.log(absl::StrCat("job ", attempt_->run.job().id,
                            " is not stored: ", status.message()));
  return false;
}

std::string Scheduler::Device() const {
  const std::optional<Progress>& progress = attempt_->run.job().progress;
  return progress ? progress->device : "";
}

}  // namespace mpsd::jobs
