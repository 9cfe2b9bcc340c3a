// SPDX-License-Identifier: Apache-2.0
// How the Scheduler divides the device among its users: what they are charged,
// which job takes the device from which, and which has held it for too long.
// Files are looked at without the lock.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/jobs/scheduler.h"
#include "server/jobs/start_check.h"

namespace mpsd::jobs {

void Scheduler::ChargeAttempt() {
  const absl::Duration used = attempt_->TakeUse();
  if (used <= absl::ZeroDuration()) return;
  attempt_->Charge(used, view_.Charge(attempt_->job().owner, used,
                                      dependencies_.clock.Monotonic(),
                                      dependencies_.clock.Now()));
}

void Scheduler::ForgetUses() {
  const std::vector<std::string> forgotten =
      view_.ForgetUses(dependencies_.clock.Monotonic());
  if (forgotten.empty()) return;
  // Rows that stay are forgotten again after a restart.
  dependencies_.store.ForgetUses(forgotten).IgnoreError();
}

absl::Time Scheduler::LimitTime() const {
  if (!attempt_->may_be_stopped()) return absl::InfiniteFuture();
  const absl::Duration limit = TimeLimitOf(attempt_->job());
  if (limit == absl::InfiniteDuration()) return absl::InfiniteFuture();
  const absl::Duration held = attempt_->DeviceTime();
  if (held < limit) return dependencies_.clock.Now() + (limit - held);
  return absl::InfinitePast();
}

absl::Time Scheduler::ConsiderPreemption() {
  absl::Time again = absl::InfiniteFuture();
  const std::optional<JobQueue::Entry> challenger = FindChallenger(again);
  if (!challenger) return again;
  if (!CouldStart(challenger->id)) {
    return dependencies_.clock.Now() + options_.poll_interval;
  }
  {
    Turn turn(*this);
    // Files were looked at without the lock: meanwhile the attempt may have
    // ended, or the challenger may have left the queue.
    if (draining_ || !attempt_->may_be_stopped() ||
        !view_.Position(challenger->id)) {
      return dependencies_.clock.Now() + options_.poll_interval;
    }
    attempt_->GiveWay(challenger->id, challenger->priority);
    NoteInQueue(challenger->id,
                absl::StrCat("takes the device from job ", attempt_->id(),
                             " of priority ", attempt_->job().priority,
                             ", once that job has written a checkpoint"));
    FlushAttempt();
    turn.Wake(attempt_->id());
  }
  hub_.Wake(challenger->id);
  return absl::InfiniteFuture();
}

std::optional<JobQueue::Entry> Scheduler::FindChallenger(absl::Time& again) {
  const absl::Duration now = dependencies_.clock.Monotonic();
  absl::MutexLock lock(&mutex_);
  // What keeps every job from starting keeps this one running: a pause, a stop,
  // a store that takes no writes.
  if (!options_.preemption.enabled || draining_ || IsDrained() ||
      !attempt_->may_be_stopped() || !gate_.reasons().empty() ||
      view_.holds().contains(HoldReason::kStorage)) {
    return std::nullopt;
  }
  const Holder holder = attempt_->holder();
  std::optional<JobQueue::Entry> next = view_.Next(now);
  if (!next || next->behind || next->priority <= holder.priority) {
    again = WallTime(view_.NextTimeAbove(holder.priority));
    return std::nullopt;
  }
  if (MayTake(options_.preemption, *next, holder)) return next;
  again = WallTime(now + options_.poll_interval);
  return std::nullopt;
}

bool Scheduler::CouldStart(const std::string& id) {
  const absl::StatusOr<Job> job = dependencies_.store.Get(id);
  if (!job.ok()) return false;
  const bool has_files = HasItsFiles(*job, SpecOf(*job));
  journal_.Write();
  return has_files &&
         FullDisk(options_.min_free_bytes, dependencies_.files).empty() &&
         HasTime(*job);
}

void Scheduler::NoteInQueue(const std::string& id, const std::string& text) {
  journal_.Add(id, text);
  absl::StatusOr<Job> job = dependencies_.store.Get(id);
  if (!job.ok()) return;
  absl::StatusOr<RunningJob> run =
      RunningJob::Load(dependencies_.store, *std::move(job));
  if (!run.ok()) return;
  run->Noted(text, dependencies_.clock.Now());
  Stored(run->Flush(dependencies_.store));
}

absl::Time Scheduler::ChargeTime() const {
  if (!attempt_->is_measured()) return absl::InfiniteFuture();
  return dependencies_.clock.Now() +
         std::max(options_.use_interval - attempt_->flush_age(),
                  absl::ZeroDuration());
}

absl::Duration Scheduler::TimeLimitOf(const Job& job) const {
  return options_.time_limit ? options_.time_limit(job.owner)
                             : absl::InfiniteDuration();
}

bool Scheduler::FailForTime(const std::string& id) {
  Turn turn(*this);
  // Reads the row again, now with the lock: a Cancel may have come meanwhile.
  if (!view_.Position(id)) return true;
  absl::StatusOr<Job> job = dependencies_.store.Get(id);
  if (!job.ok()) return Stored(job.status());
  WorkerListener::Result result;
  result.reason = ExitReason::kTimeLimit;
  result.message =
      DescribeTimeLimit(job->owner, id, job->device_time, TimeLimitOf(*job));
  const absl::Time now = dependencies_.clock.Now();
  const NextState next = DecideNext(options_.retry, *job, result, now);
  absl::StatusOr<RunningJob> run =
      RunningJob::Load(dependencies_.store, *std::move(job));
  if (!run.ok()) return Stored(run.status());
  run->Ended(result, next, now);
  if (!Stored(run->Flush(dependencies_.store))) return false;
  view_.Remove(id);
  dependencies_.exported_metrics.JobEnded(id, State::kFailed);
  waiting_.Forget(id);
  waiting_.Changed(id);
  counts_.Ask();
  journal_.Add(id, result.message);
  turn.Wake(id);
  return true;
}

}  // namespace mpsd::jobs
