// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "server/jobs/job_deletion.h"
#include "server/jobs/prior_jobs.h"
#include "server/jobs/scheduler.h"

// Users' changes to existing jobs, and to the whole queue. Files are removed
// without the lock.

// How the Scheduler divides the device among its users: what they are charged,
// which job takes the device from which, and which has held it for too long.
// Files are accessed without the lock.

// The Scheduler's part in removing and keeping jobs. Files are removed without
// the lock.

namespace mpsd::jobs {

namespace {

absl::Status NotStoredYet() {
  return absl::AbortedError(
      "the end of the job's last attempt is not stored yet: try again");
}

absl::Status IsInState(const Job& job, const std::string& what) {
  return absl::FailedPreconditionError(absl::StrCat(
      "job ", job.id, " is ", std::string(Name(job.state)), ": ", what));
}

// The description of a move, for the job's events.
std::string DescribeMove(const Job& job, const MoveTo& to) {
  if (to.where == MoveTo::Where::kPriority) {
    return absl::StrCat("moved from priority ", job.priority, " to ",
                        to.priority);
  }
  return absl::StrCat("moved ",
                      to.where == MoveTo::Where::kTop ? "before" : "after",
                      to.among_all ? " all others" : " its owner's others",
                      " of priority ", job.priority);
}

}  // namespace

absl::StatusOr<Job> Scheduler::Cancel(const std::string& id, bool now) {
  Turn turn(*this);
  turn.Wake(id);
  turn.AskForTick();
  const bool runs = attempt_ && !attempt_->ended() && attempt_->id() == id;
  return runs ? CancelAttempt(now) : CancelStored(id);
}

absl::StatusOr<Job> Scheduler::CancelStored(const std::string& id) {
  absl::StatusOr<Job> job = dependencies_.store.Get(id);
  if (!job.ok() || IsFinal(job->state)) return job;
  if (job->state == State::kRunning) {
    return NotStoredYet();
  }
  ASSIGN_OR_RETURN(RunningJob run,
                   RunningJob::Load(dependencies_.store, *std::move(job)));
  run.Moved(State::kCancelled, "cancelled", dependencies_.clock.Now());
  absl::Status stored = run.Flush(dependencies_.store);
  if (!stored.ok()) return stored;
  Stored(stored);
  // TryStart looks for the entry under the same lock, so no worker starts for a
  // job that this turn cancels.
  view_.Remove(id);
  dependencies_.exported_metrics.JobEnded(id, State::kCancelled);
  waiting_.Forget(id);
  waiting_.Changed(id);
  counts_.Ask();
  journal_.Add(id, "cancelled while queued");
  return run.job();
}

absl::StatusOr<Job> Scheduler::CancelAttempt(bool now) {
  const absl::Status stored = attempt_->Cancel(now);
  if (Stored(stored)) return attempt_->job();
  return absl::AbortedError(
      absl::StrCat("the job was asked to stop, but its cancellation cannot be "
                   "stored: should mpsd end before the job does, it runs "
                   "again; cancel it again when there is space (",
                   stored.message(), ")"));
}

absl::StatusOr<RunningJob> Scheduler::LoadQueued(const std::string& id,
                                                 const std::string& what) {
  ASSIGN_OR_RETURN(Job job, dependencies_.store.Get(id));
  if (attempt_ && attempt_->ended() && attempt_->id() == id &&
      attempt_->dirty()) {
    return NotStoredYet();
  }
  if (job.state != State::kQueued) return IsInState(job, what);
  return RunningJob::Load(dependencies_.store, std::move(job));
}

absl::StatusOr<Job> Scheduler::StoreQueued(RunningJob& run, absl::Time since) {
  absl::Status stored = run.Flush(dependencies_.store);
  if (!stored.ok()) return stored;
  Stored(stored);
  Enqueue(run.job(), since);
  counts_.Ask();
  return run.job();
}

absl::Time Scheduler::QueuedSince(const std::string& id) const {
  const std::optional<JobQueue::Entry> entry = view_.Find(id);
  return entry ? entry->since : dependencies_.clock.Now();
}

absl::StatusOr<Job> Scheduler::HoldLocked(const std::string& id,
                                          const std::string& why) {
  ASSIGN_OR_RETURN(RunningJob run, LoadQueued(id, "only a QUEUED job is held"));
  if (run.job().held && run.job().hold_reason == why) return run.job();
  run.Held(why, dependencies_.clock.Now());
  journal_.Add(id, absl::StrCat("held: ", why));
  return StoreQueued(run, QueuedSince(id));
}

absl::StatusOr<Job> Scheduler::Hold(const std::string& id,
                                    const std::string& why) {
  Turn turn(*this);
  turn.Wake(id);
  turn.AskForTick();
  return HoldLocked(id, why);
}

absl::StatusOr<Job> Scheduler::Release(const std::string& id) {
  Turn turn(*this);
  turn.Wake(id);
  turn.AskForTick();
  ASSIGN_OR_RETURN(RunningJob run,
                   LoadQueued(id, "only a QUEUED job is released"));
  if (!run.job().held) return run.job();
  const absl::Time now = dependencies_.clock.Now();
  Job job = run.job();
  RETURN_IF_ERROR(ForgetFailedPriors(job));
  run.Released(std::move(job.after), now);
  journal_.Add(id, "released");
  // The time that the job was held does not count as waiting for the device.
  return StoreQueued(run, now);
}

absl::StatusOr<Job> Scheduler::Move(const std::string& id, const MoveTo& to,
                                    const UserLimits& limits) {
  Turn turn(*this);
  turn.Wake(id);
  turn.AskForTick();
  ASSIGN_OR_RETURN(RunningJob run,
                   LoadQueued(id, "only a QUEUED job is moved"));
  const Job& job = run.job();
  int32_t priority = job.priority;
  int64_t place = 0;
  bool among_all = false;
  if (to.where == MoveTo::Where::kPriority) {
    RETURN_IF_ERROR(CheckPriority(job.owner, limits, to.priority));
    if (to.priority == priority) return job;
    priority = to.priority;
  } else {
    // A retried job whose files are being removed is QUEUED only in the store.
    if (!view_.Position(id)) return NotStoredYet();
    among_all = to.among_all;
    place =
        view_.PlaceAt(to.where == MoveTo::Where::kTop ? JobQueue::Edge::kTop
                                                      : JobQueue::Edge::kBottom,
                      id, among_all);
    if (place == job.place && among_all == job.among_all) return job;
  }
  const std::string words = DescribeMove(job, to);
  run.MovedTo(place, among_all, priority, words, dependencies_.clock.Now());
  journal_.Add(id, words);
  return StoreQueued(run, QueuedSince(id));
}

absl::Status Scheduler::CheckRunsAgain(const Job& job,
                                       const UserLimits& limits) {
  if (draining_) {
    return absl::UnavailableError("mpsd is stopping: try again later");
  }
  absl::Status allowed =
      CheckQueued(job.owner, limits, view_.CountOf(job.owner));
  if (allowed.ok() && !HasTime(job)) {
    allowed = absl::ResourceExhaustedError(DescribeTimeLimit(
        job.owner, job.id, job.device_time, TimeLimitOf(job)));
  }
  return allowed;
}

absl::Status Scheduler::CheckRoomForResults(const std::string& id,
                                            const UserLimits& limits) {
  if (!limits.result_bytes) return absl::OkStatus();
  const absl::StatusOr<std::string> owner = dependencies_.store.OwnerOf(id);
  return owner.ok() ? CheckResultBytes(*owner, limits) : owner.status();
}

absl::StatusOr<Job> Scheduler::Retry(const std::string& id, bool from_scratch,
                                     const UserLimits& limits) {
  if (from_scratch) return RetryFromScratch(id, limits);
  RETURN_IF_ERROR(CheckRoomForResults(id, limits));
  // Until the row says QUEUED, which keeps the checkpoints from then on.
  ASSIGN_OR_RETURN(const FolderClaims::Use use, claims_.Take({id}, nullptr));
  Turn turn(*this);
  turn.Wake(id);
  turn.AskForTick();
  absl::StatusOr<Job> job = LoadToRetry(id);
  if (!job.ok()) return job;
  if (job->state == State::kRunning) return RetryAttempt(false);
  if (job->state == State::kSucceeded) {
    return IsInState(*job,
                     "nothing of it is left to do; from scratch (`mpsctl "
                     "retry --from-scratch`) it runs again, without its "
                     "checkpoints and results");
  }
  RETURN_IF_ERROR(CheckRunsAgain(*job, limits));
  ASSIGN_OR_RETURN(RunningJob run,
                   RunningJob::Load(dependencies_.store, *std::move(job)));
  const absl::Time now = dependencies_.clock.Now();
  run.Retried(now);
  journal_.Add(id, "queued again");
  return StoreQueued(run, now);
}

absl::StatusOr<Job> Scheduler::LoadToRetry(const std::string& id) {
  absl::StatusOr<Job> job = dependencies_.store.Get(id);
  if (!job.ok()) return job;
  const bool holds_device = attempt_ && attempt_->id() == id;
  if (job->state == State::kRunning) {
    if (!holds_device || attempt_->ended()) return NotStoredYet();
    if (attempt_->job().cancel_requested) {
      return IsInState(*job, "it is being cancelled: wait for its end");
    }
  } else if (holds_device && attempt_->dirty()) {
    return NotStoredYet();
  }
  if (job->state == State::kQueued) return IsInState(*job, "it runs anyway");
  return job;
}

absl::StatusOr<Job> Scheduler::RetryAttempt(bool from_scratch) {
  const absl::Status stored = attempt_->RunAgain(from_scratch);
  if (Stored(stored)) return attempt_->job();
  return absl::AbortedError(
      absl::StrCat("the job was asked to stop, but its retry cannot be stored: "
                   "retry it again when there is space (",
                   stored.message(), ")"));
}

absl::StatusOr<Job> Scheduler::RetryFromScratch(const std::string& id,
                                                const UserLimits& limits) {
  // A start of the job takes this lock, too, so that no file of an attempt is
  // removed.
  absl::MutexLock removing(&deletions_);
  ASSIGN_OR_RETURN(const FolderClaims::Removal removal, claims_.Remove(id));
  {
    Turn turn(*this);
    turn.Wake(id);
    turn.AskForTick();
    absl::StatusOr<Job> job = LoadToRetry(id);
    if (!job.ok()) return job;
    RETURN_IF_ERROR(CheckIsNotNeeded(*job));
    if (job->state == State::kRunning) return RetryAttempt(true);
    RETURN_IF_ERROR(CheckRunsAgain(*job, limits));
    ASSIGN_OR_RETURN(RunningJob run,
                     RunningJob::Load(dependencies_.store, *std::move(job)));
    run.Renewed(dependencies_.clock.Now());
    absl::Status stored = run.Flush(dependencies_.store);
    if (!stored.ok()) return stored;
    Stored(stored);
    counts_.Ask();
    journal_.Add(id, "queued again, from scratch");
  }
  // The job enters the queue without its files. If mpsd is killed before, or a
  // file cannot be removed, the job's start removes them.
  const absl::Status cleared = RemoveRun(id);
  Turn turn(*this);
  turn.AskForTick();
  if (!cleared.ok()) journal_.Add(id, std::string(cleared.message()));
  absl::StatusOr<Job> job = dependencies_.store.Get(id);
  // The job may have been cancelled meanwhile, and retried.
  if (job.ok() && job->state == State::kQueued && !view_.Position(id)) {
    Enqueue(*job, dependencies_.clock.Now());
    counts_.Ask();
  }
  return job;
}

absl::Status Scheduler::CheckIsNotNeeded(const Job& job) {
  if (job.pinned) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job.id,
                     " is pinned, and its checkpoints and results with it: "
                     "`mpsctl unpin ",
                     job.id, "` releases them"));
  }
  ASSIGN_OR_RETURN(const std::string user, dependencies_.store.UserOf(job.id));
  if (user.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("job ", user, ", which has not ended, uses files of job ",
                   job.id, ": wait for it or cancel it first"));
}

absl::Status Scheduler::RemoveRun(const std::string& id) {
  absl::Status removed = dependencies_.files.RemoveRun(id);
  return removed.ok() ? dependencies_.store.ForgetCheckpoints(id) : removed;
}

bool Scheduler::BeginsFromScratch(const std::string& id) {
  absl::MutexLock removing(&deletions_);
  const absl::Status removed = RemoveRun(id);
  if (removed.ok()) return true;
  const std::string why = absl::StrCat(
      "what an earlier attempt left cannot be removed: ", removed.message());
  if (view_.HoldOf(id) != why) journal_.Add(id, absl::StrCat("waits: ", why));
  view_.HoldJob(id, why,
                dependencies_.clock.Monotonic() + options_.retry.first_backoff);
  return false;
}

void Scheduler::TakeTurn(const std::string& id, Job& job) {
  const std::optional<JobQueue::Heir> heir = view_.TakeTurn(id);
  if (!heir) return;
  // A kill between this and the start leaves the same ticket twice, and costs
  // the owner a turn.
  if (const auto entry = view_.Find(id)) job.ticket = entry->ticket;
  absl::StatusOr<Job> other = dependencies_.store.Get(heir->id);
  if (!other.ok()) return;
  other->ticket = heir->ticket;
  Stored(dependencies_.store.Update(*other, {}));
}

absl::Status Scheduler::DrainQueue(const std::string& why) {
  Turn turn(*this);
  absl::Status stored = dependencies_.store.SetDrain(why);
  if (stored.ok()) SetStartBlocker(HoldReason::kDrained, why);
  return stored;
}

absl::Status Scheduler::UndrainQueue() {
  Turn turn(*this);
  turn.AskForTick();
  absl::Status stored = dependencies_.store.SetDrain(std::nullopt);
  if (stored.ok()) SetStartBlocker(HoldReason::kDrained, "");
  return stored;
}

bool Scheduler::IsDrained() const {
  return view_.holds().contains(HoldReason::kDrained);
}

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
  // Rows that remain are forgotten again after a restart.
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
    // Files were accessed without the lock: meanwhile the attempt may have
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
  // a store that accepts no writes.
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

absl::Status Scheduler::CheckStoredEnd(const std::string& id) {
  absl::MutexLock lock(&mutex_);
  // Until Reap the row may still say RUNNING, and DeleteRow would advise
  // cancelling a job that has ended.
  if (attempt_ && attempt_->ended() && attempt_->id() == id) {
    return absl::UnavailableError(
        "the end of the job's last attempt is not stored yet: try again");
  }
  return absl::OkStatus();
}

void Scheduler::KeepRecord(const std::string& id) {
  if (!dependencies_.keep_record) return;
  absl::Status kept = dependencies_.keep_record(id);
  if (absl::IsResourceExhausted(kept) && dependencies_.files.MakeRoom()) {
    kept = dependencies_.keep_record(id);
  }
  if (kept.ok()) return;
  journal_.Add("", absl::StrCat("job ", id, " is removed without a record: ",
                                kept.message()));
}

absl::StatusOr<int64_t> Scheduler::Delete(const std::string& id) {
  return Remove(id, [](const std::string&) { return absl::OkStatus(); });
}

absl::Status Scheduler::MayDelete(const std::string& id) {
  RETURN_IF_ERROR(CheckStoredEnd(id));
  return dependencies_.kept->MayDelete(id);
}

absl::StatusOr<int64_t> Scheduler::RemoveJob(const std::string& id,
                                             absl::Time ended) {
  return Remove(id, [&](const std::string&) {
    return dependencies_.kept->MayRemove(id, ended);
  });
}

absl::StatusOr<int64_t> Scheduler::Remove(
    const std::string& id,
    const std::function<absl::Status(const std::string&)>& may) {
  RETURN_IF_ERROR(CheckStoredEnd(id));
  {
    // Two deletions may both read a job's row. The later one would find no row
    // to remove, and remove the mark that the first still needs.
    absl::MutexLock turn(&deletions_);
    ASSIGN_OR_RETURN(const FolderClaims::Removal removal, claims_.Remove(id));
    absl::Status status = may(id);
    if (status.ok()) {
      KeepRecord(id);
      status = DeleteRow(dependencies_.store, dependencies_.files, id);
    }
    if (!status.ok()) return status;
  }
  dependencies_.exported_metrics.JobDeleted(id);
  counts_.Ask();
  PublishCounts();
  journal_.Add("", absl::StrCat("job ", id, ": deleted"));
  journal_.Write();
  hub_.Wake(id);
  const int64_t freed = dependencies_.files.FinishDelete(id);
  if (dependencies_.folders != nullptr) dependencies_.folders->JobRemoved(id);
  return freed;
}

absl::StatusOr<int64_t> Scheduler::RemoveCheckpoints(const std::string& id,
                                                     absl::Time ended) {
  RETURN_IF_ERROR(CheckStoredEnd(id));
  // Until the folder is removed the job cannot be deleted or retried: its
  // worker would read the checkpoints. Other jobs are deleted and started
  // meanwhile, however large the folder is.
  ASSIGN_OR_RETURN(const FolderClaims::Removal removal, claims_.Remove(id));
  KeptJobs& kept = *dependencies_.kept;
  absl::Status forgotten = kept.ForgetCheckpoints(id, ended);
  if (absl::IsResourceExhausted(forgotten) && dependencies_.files.MakeRoom()) {
    forgotten = kept.ForgetCheckpoints(id, ended);
  }
  if (!forgotten.ok()) return forgotten;
  const absl::StatusOr<int64_t> freed =
      dependencies_.files.RemoveCheckpoints(id);
  if (!freed.ok()) return freed;
  if (dependencies_.folders != nullptr) {
    dependencies_.folders->CheckpointsRemoved(id);
  }
  journal_.Add("", absl::StrCat("job ", id, ": checkpoints removed"));
  journal_.Write();
  hub_.Wake(id);
  return freed;
}

absl::StatusOr<Job> Scheduler::SetPinned(const std::string& id, bool pinned) {
  // Once a caller was told that a job is pinned, its files exist.
  ASSIGN_OR_RETURN(const FolderClaims::Use use, claims_.Take({id}, nullptr));
  RETURN_IF_ERROR(dependencies_.kept->SetPinned(id, pinned));
  hub_.Wake(id);
  return dependencies_.store.Get(id);
}

}  // namespace mpsd::jobs
