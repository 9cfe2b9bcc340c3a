// SPDX-License-Identifier: Apache-2.0
// The part of the Scheduler that holds the device: Tick() and what the worker
// reports.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "server/jobs/scheduler.h"
#include "server/jobs/start_check.h"

namespace mpsd::jobs {

absl::Time Scheduler::Tick() {
  const absl::Time look_again = HeedHost();
  return std::min(look_again, Reap() ? StartNext() : TendAttempt());
}

absl::Time Scheduler::TendAttempt() {
  std::string id;
  {
    Turn turn(*this);
    const absl::Time now = parts_.clock.Now();
    if (attempt_->ended) return now + options_.poll_interval;
    if (!IsDirty()) return absl::InfiniteFuture();
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
  std::string late;  // the job whose end was not stored when it came
  {
    Turn turn(*this);
    if (!attempt_) return true;
    if (!attempt_->ended) return false;
    if (IsDirty()) late = attempt_->run.job().id;
    if (!FlushAttempt()) return false;
    over = std::move(attempt_);
    if (!late.empty()) counts_.Ask();
  }
  if (!late.empty()) hub_.Wake(late);
  // Joins the worker's thread, which may be on its way out of OnExit: not under
  // the lock.
  over.reset();
  return true;
}

void Scheduler::Drain() {
  draining_ = true;
  // Whoever holds the lock sees to it at the end of their turn.
  if (!mutex_.TryLock()) return;
  PreemptForDrain();
  mutex_.Unlock();
  journal_.Write();
}

void Scheduler::PreemptForDrain() {
  if (!attempt_ || !attempt_->worker || attempt_->ended || attempt_->drained ||
      attempt_->run.job().cancel_requested) {
    return;
  }
  attempt_->drained = true;
  Log(attempt_->run.job().id, "mpsd stops: asked for a checkpoint");
  attempt_->worker->Preempt(options_.stop_grace);
}

void Scheduler::OnHello(const Identity& identity) {
  Turn turn(*this);
  base::Check(attempt_ != nullptr, "a worker reports within its attempt");
  view_.Change([&](ManagerInfo& info) {
    info.worker_version = identity.worker_version;
    info.torch_version = identity.torch_version;
  });
  Log(attempt_->run.job().id,
      absl::StrCat("worker ", identity.worker_version, ", torch ",
                   identity.torch_version, ", pid ", identity.pid));
}

void Scheduler::OnProgress(const Progress& progress) {
  std::string id;
  bool held_back = false;
  {
    Turn turn(*this);
    base::Check(attempt_ != nullptr, "a worker reports within its attempt");
    id = attempt_->run.job().id;
    view_.Change([&](ManagerInfo& info) {
      info.device = progress.device;
      info.memory = progress.memory;
    });
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
    Turn turn(*this);
    base::Check(attempt_ != nullptr, "a worker reports within its attempt");
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
    Turn turn(*this);
    base::Check(attempt_ != nullptr, "a worker reports within its attempt");
    id = attempt_->run.job().id;
    Checkpoint stamped = checkpoint;
    stamped.create_time = parts_.clock.Now();
    attempt_->unstored.push_back({stamped, removed_paths});
    machine_faults_ = 0;
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
    Turn turn(*this);
    base::Check(attempt_ != nullptr, "a worker reports within its attempt");
    id = attempt_->run.job().id;
    attempt_->run.Staged(stage, parts_.clock.Now());
    FlushAttempt();
  }
  hub_.Wake(id);
}

void Scheduler::OnWarning(const std::string& text) {
  std::string id;
  {
    Turn turn(*this);
    base::Check(attempt_ != nullptr, "a worker reports within its attempt");
    id = attempt_->run.job().id;
    attempt_->run.Warned(text, parts_.clock.Now());
    FlushAttempt();
  }
  hub_.Wake(id);
}

void Scheduler::OnExit(const Result& result) {
  Job job;
  {
    absl::MutexLock lock(&mutex_);
    base::Check(attempt_ != nullptr, "a worker reports within its attempt");
    job = attempt_->run.job();
  }
  const Verdict verdict = Judge(result, job);
  {
    Turn turn(*this);
    EndAttempt(verdict);
  }
  hub_.Wake(job.id);
  options_.on_change();
}

// An error of the job's is none where the disk explains it.
Scheduler::Verdict Scheduler::Judge(const Result& result, const Job& job) {
  Verdict verdict{result, "", ""};
  const ExitReason reason = result.reason;
  if (reason != ExitReason::kMachine && reason != ExitReason::kCrashed &&
      reason != ExitReason::kRejected) {
    return verdict;
  }
  verdict.job_lacks = MissingPath(job, parts_.files);
  if (reason != ExitReason::kRejected) {
    verdict.disk_lacks = FullDisk(options_.min_free_bytes, parts_.files);
  }
  const std::string& lacks =
      verdict.job_lacks.empty() ? verdict.disk_lacks : verdict.job_lacks;
  if (!lacks.empty()) {
    verdict.result.reason = ExitReason::kMachine;
    verdict.result.message = absl::StrCat(lacks, "; ", result.message);
  }
  return verdict;
}

void Scheduler::EndAttempt(const Verdict& verdict) {
  base::Check(attempt_ && !attempt_->ended, "an attempt ends once");
  RunningJob& run = attempt_->run;
  const absl::Time now = parts_.clock.Now();
  Result result = verdict.result;
  const bool for_memory =
      result.reason == ExitReason::kPreempted && !attempt_->drained &&
      attempt_->returned_for.contains(PauseReason::kMemoryPressure);
  if (for_memory) result.reason = ExitReason::kInterrupted;
  NextState next = DecideNext(options_.retry, run.job(), result, now);
  if (next.state == State::kQueued && !attempt_->returned_for.empty()) {
    next.message = absl::StrCat("paused (", Describe(attempt_->returned_for),
                                "), goes on by itself: ", next.message);
  }
  // Others may need less.
  if (for_memory && next.state == State::kQueued) next.behind = true;
  if (result.reason == ExitReason::kMachine && next.state == State::kQueued) {
    BlameMachine(verdict, result.message, next);
  } else {
    machine_faults_ = 0;
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
    if (!verdict.job_lacks.empty()) {
      view_.HoldJob(run.job().id, verdict.job_lacks,
                    parts_.clock.Monotonic() + options_.retry.first_backoff);
    }
  } else {
    parts_.metrics.JobEnded(run.job().id);
  }
  FlushAttempt();
  counts_.Ask();
}

void Scheduler::BlameMachine(const Verdict& verdict, const std::string& text,
                             NextState& next) {
  if (!verdict.job_lacks.empty()) return;  // it waits alone
  const absl::Duration wait = Backoff(options_.retry, ++machine_faults_);
  machine_wait_ = parts_.clock.Monotonic() + wait;
  next.message =
      absl::StrCat("this machine's fault, not counted, looked at again in ",
                   absl::FormatDuration(wait), ": ", text);
  // Where nothing explains it, whether others meet it too tells whose it is.
  next.behind = verdict.disk_lacks.empty() && attempt_->worker != nullptr;
  Hold(HoldReason::kMachine,
       absl::StrCat("job ", attempt_->run.job().id, " met ", text));
}

bool Scheduler::IsDirty() const {
  return attempt_->run.dirty() || !attempt_->unstored.empty();
}

absl::Status Scheduler::StoreAttempt() {
  std::deque<Attempt::Written>& unstored = attempt_->unstored;
  const std::string& id = attempt_->run.job().id;
  absl::Status added;
  while (added.ok() && !unstored.empty()) {
    added = parts_.store.AddCheckpoint(id, unstored.front().checkpoint,
                                       unstored.front().removed_paths);
    if (added.ok()) unstored.pop_front();
  }
  absl::Status stored = attempt_->run.Flush(parts_.store);
  if (stored.ok() && !added.ok()) {
    // The store takes the row: it is the checkpoint that makes no sense.
    Log(id, absl::StrCat("checkpoint: ", added.message()));
    unstored.pop_front();
  }
  return stored;
}

bool Scheduler::FlushAttempt() {
  if (!IsDirty()) return true;
  const absl::Status status = StoreAttempt();
  attempt_->flushed_at = parts_.clock.Monotonic();
  return Stored(status);
}

void Scheduler::ShowAttempt() {
  idle_ = attempt_ == nullptr;
  const bool runs = attempt_ && !attempt_->ended;
  view_.Change(
      [&](ManagerInfo& info) { info.pause_reasons = gate_.reasons(); });
  view_.SetRunning(runs ? attempt_->run.job().id : "",
                   runs ? AttemptPause()
                        : Pause{gate_.reasons(), false, std::nullopt});
}

std::string Scheduler::Device() const {
  const std::optional<Progress>& progress = attempt_->run.job().progress;
  return progress ? progress->device : "";
}

}  // namespace mpsd::jobs
