// SPDX-License-Identifier: Apache-2.0
// Users' changes: new jobs, changes to jobs that have not ended, jobs that run
// again, and the whole queue's hold.
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "server/jobs/scheduler.h"

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

absl::StatusOr<SubmitResult> Scheduler::Submit(const SubmitRequest& request) {
  absl::StatusOr<SubmitResult> result = submitter_.Submit(
      request, [this](Submitter::NewJob& made, const UserLimits& limits,
                      const FolderClaims::Watch& watch) {
        return Insert(made, limits, watch);
      });
  if (!result.ok() || result->existed) return result;
  journal_.Add(result->job.id, "queued");
  journal_.Write();
  options_.on_change();
  return result;
}

absl::Status Scheduler::Insert(Submitter::NewJob& made,
                               const UserLimits& limits,
                               const FolderClaims::Watch& watch) {
  Job& job = made.job;
  // Until the row exists, which shows it from then on.
  std::set<std::string> needed = job.uses;
  needed.insert(job.after.begin(), job.after.end());
  ASSIGN_OR_RETURN(const FolderClaims::Use use,
                   remover_.claims().Take(std::move(needed), &watch));
  const Event first{job.id, 1, job.create_time,
                    StateChanged{State::kQueued, made.checked.note}};
  Turn turn(*this);
  if (draining_) return Stopping();
  // With the lock, under which every job enters the queue: of fifty concurrent
  // calls none bypasses the limit.
  RETURN_IF_ERROR(CheckQueued(job.owner, limits, view_.CountOf(job.owner)));
  job.place = view_.LastPlace(job.owner, job.priority);
  RETURN_IF_ERROR(store_.Insert(job, first));
  blockers_.Set(HoldReason::kStorage, "");
  // The row comes before the queue's entry: TryStart reads the row without this
  // lock, and drops an entry whose row the store does not have.
  Enqueue(job, job.create_time);
  counts_.Ask();
  return absl::OkStatus();
}

absl::StatusOr<Job> Scheduler::Cancel(const std::string& id, bool now) {
  Turn turn(*this);
  turn.Wake(id);
  turn.AskForTick();
  const bool runs = attempt_ && !attempt_->ended() && attempt_->id() == id;
  return runs ? CancelAttempt(now) : CancelStored(id);
}

absl::StatusOr<Job> Scheduler::CancelStored(const std::string& id) {
  absl::StatusOr<Job> job = store_.Get(id);
  if (!job.ok() || IsFinal(job->state)) return job;
  if (job->state == State::kRunning) return NotStoredYet();
  ASSIGN_OR_RETURN(RunningJob run, RunningJob::Load(store_, *std::move(job)));
  run.Moved(State::kCancelled, "cancelled", clock_.Now());
  RETURN_IF_ERROR(files_.WithRoom([&] { return run.Flush(store_); }));
  blockers_.Set(HoldReason::kStorage, "");
  // TryStart looks for the entry under the same lock, so no worker starts for a
  // job that this turn cancels.
  view_.Remove(id);
  exported_metrics_.JobEnded(id, State::kCancelled);
  priors_.Ended(id);
  counts_.Ask();
  journal_.Add(id, "cancelled while queued");
  return run.job();
}

absl::StatusOr<Job> Scheduler::CancelAttempt(bool now) {
  absl::Status stored = attempt_->Cancel(now);
  if (absl::IsResourceExhausted(stored) && files_.MakeRoom()) {
    stored = attempt_->Flush();
  }
  if (blockers_.Stored(stored)) return attempt_->job();
  return absl::AbortedError(
      absl::StrCat("the job was asked to stop, but its cancellation cannot be "
                   "stored: should mpsd end before the job does, it runs "
                   "again; cancel it again when there is space (",
                   stored.message(), ")"));
}

absl::StatusOr<RunningJob> Scheduler::LoadQueued(const std::string& id,
                                                 const std::string& what) {
  ASSIGN_OR_RETURN(Job job, store_.Get(id));
  if (attempt_ && attempt_->ended() && attempt_->id() == id &&
      attempt_->dirty()) {
    return NotStoredYet();
  }
  if (job.state != State::kQueued) return IsInState(job, what);
  return RunningJob::Load(store_, std::move(job));
}

absl::StatusOr<Job> Scheduler::StoreQueued(RunningJob& run, absl::Time since) {
  RETURN_IF_ERROR(run.Flush(store_));
  blockers_.Set(HoldReason::kStorage, "");
  Enqueue(run.job(), since);
  counts_.Ask();
  return run.job();
}

absl::Time Scheduler::QueuedSince(const std::string& id) const {
  const std::optional<JobQueue::Entry> entry = view_.Find(id);
  return entry ? entry->since : clock_.Now();
}

absl::StatusOr<Job> Scheduler::Hold(const std::string& id,
                                    const std::string& why) {
  Turn turn(*this);
  turn.Wake(id);
  turn.AskForTick();
  ASSIGN_OR_RETURN(
      RunningJob run,
      LoadQueued(id,
                 "only a QUEUED job is held; `mpsctl cancel` keeps a "
                 "checkpoint of a RUNNING one, from which `mpsctl retry` "
                 "resumes it"));
  if (run.job().held && run.job().hold_reason == why) return run.job();
  run.Held(why, clock_.Now());
  journal_.Add(id, absl::StrCat("held: ", why));
  return StoreQueued(run, QueuedSince(id));
}

absl::StatusOr<Job> Scheduler::Release(const std::string& id) {
  Turn turn(*this);
  turn.Wake(id);
  turn.AskForTick();
  ASSIGN_OR_RETURN(RunningJob run,
                   LoadQueued(id, "only a QUEUED job is released"));
  if (!run.job().held) return run.job();
  const absl::Time now = clock_.Now();
  Job job = run.job();
  RETURN_IF_ERROR(priors_.ForgetFailed(job));
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
  run.MovedTo(place, among_all, priority, words, clock_.Now());
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

absl::StatusOr<Job> Scheduler::Retry(const std::string& id, bool from_scratch,
                                     const UserLimits& limits) {
  if (from_scratch) return RetryFromScratch(id, limits);
  if (limits.result_bytes) {
    ASSIGN_OR_RETURN(const std::string owner, store_.OwnerOf(id));
    RETURN_IF_ERROR(CheckResultBytes(ledger_, owner, limits));
  }
  // Until the row says QUEUED, which keeps the checkpoints from then on.
  ASSIGN_OR_RETURN(const FolderClaims::Use use,
                   remover_.claims().Take({id}, nullptr));
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
  ASSIGN_OR_RETURN(RunningJob run, RunningJob::Load(store_, *std::move(job)));
  const absl::Time now = clock_.Now();
  run.Retried(now);
  journal_.Add(id, "queued again");
  return StoreQueued(run, now);
}

absl::StatusOr<Job> Scheduler::LoadToRetry(const std::string& id) {
  absl::StatusOr<Job> job = store_.Get(id);
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
  if (blockers_.Stored(stored)) return attempt_->job();
  return absl::AbortedError(
      absl::StrCat("the job was asked to stop, but its retry cannot be stored: "
                   "retry it again when there is space (",
                   stored.message(), ")"));
}

absl::StatusOr<Job> Scheduler::RetryFromScratch(const std::string& id,
                                                const UserLimits& limits) {
  // A start of the job takes this lock, too, so that no file of an attempt is
  // removed.
  absl::MutexLock removing(&remover_.deletions());
  ASSIGN_OR_RETURN(const FolderClaims::Removal removal,
                   remover_.claims().Remove(id));
  {
    Turn turn(*this);
    turn.Wake(id);
    turn.AskForTick();
    absl::StatusOr<Job> job = LoadToRetry(id);
    if (!job.ok()) return job;
    RETURN_IF_ERROR(remover_.CheckIsNotNeeded(*job));
    if (job->state == State::kRunning) return RetryAttempt(true);
    RETURN_IF_ERROR(CheckRunsAgain(*job, limits));
    ASSIGN_OR_RETURN(RunningJob run, RunningJob::Load(store_, *std::move(job)));
    run.Renewed(clock_.Now());
    RETURN_IF_ERROR(run.Flush(store_));
    blockers_.Set(HoldReason::kStorage, "");
    counts_.Ask();
    journal_.Add(id, "queued again, from scratch");
  }
  // The job enters the queue without its files. If mpsd is killed before, or a
  // file cannot be removed, the job's start removes them.
  const absl::Status cleared = remover_.RemoveRunLocked(id);
  Turn turn(*this);
  turn.AskForTick();
  if (!cleared.ok()) journal_.Add(id, std::string(cleared.message()));
  absl::StatusOr<Job> job = store_.Get(id);
  // The job may have been cancelled meanwhile, and retried.
  if (job.ok() && job->state == State::kQueued && !view_.Position(id)) {
    Enqueue(*job, clock_.Now());
    counts_.Ask();
  }
  return job;
}

absl::Status Scheduler::DrainQueue(const std::string& why) {
  Turn turn(*this);
  absl::Status stored = store_.SetDrain(why);
  if (stored.ok()) blockers_.Set(HoldReason::kDrained, why);
  return stored;
}

absl::Status Scheduler::UndrainQueue() {
  Turn turn(*this);
  turn.AskForTick();
  absl::Status stored = store_.SetDrain(std::nullopt);
  if (stored.ok()) blockers_.Set(HoldReason::kDrained, "");
  return stored;
}

}  // namespace mpsd::jobs
