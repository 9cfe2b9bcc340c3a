// SPDX-License-Identifier: Apache-2.0
// What people do to the Scheduler's jobs once these exist, and to the whole
// queue. Files are removed without the lock.
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
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

// The words of a move, for the job's events.
std::string DescribeMove(const Job& job, const MoveTo& to) {
  if (to.where == MoveTo::Where::kPriority) {
    return absl::StrCat("moved from priority ", job.priority, " to ",
                        to.priority);
  }
  return absl::StrCat("moved ",
                      to.where == MoveTo::Where::kTop ? "before" : "behind",
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
  absl::StatusOr<RunningJob> run =
      RunningJob::Load(dependencies_.store, *std::move(job));
  if (!run.ok()) return run.status();
  run->Moved(State::kCancelled, "cancelled", dependencies_.clock.Now());
  absl::Status stored = run->Flush(dependencies_.store);
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
  return run->job();
}

absl::StatusOr<Job> Scheduler::CancelAttempt(bool now) {
  const absl::Status stored = attempt_->Cancel(now);
  if (Stored(stored)) return attempt_->job();
  return absl::AbortedError(absl::StrCat(
      "the job was told to stop, but that it is to be cancelled cannot be "
      "stored: should mpsd end before the job does, it runs again; cancel it "
      "once more when there is room (",
      stored.message(), ")"));
}

absl::StatusOr<RunningJob> Scheduler::LoadQueued(const std::string& id,
                                                 const std::string& what) {
  absl::StatusOr<Job> job = dependencies_.store.Get(id);
  if (!job.ok()) return job.status();
  if (attempt_ && attempt_->ended() && attempt_->id() == id &&
      attempt_->dirty()) {
    return NotStoredYet();
  }
  if (job->state != State::kQueued) return IsInState(*job, what);
  return RunningJob::Load(dependencies_.store, *std::move(job));
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
  absl::StatusOr<RunningJob> run = LoadQueued(id, "only a QUEUED job is held");
  if (!run.ok()) return run.status();
  if (run->job().held && run->job().hold_reason == why) return run->job();
  run->Held(why, dependencies_.clock.Now());
  journal_.Add(id, absl::StrCat("held: ", why));
  return StoreQueued(*run, QueuedSince(id));
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
  absl::StatusOr<RunningJob> run =
      LoadQueued(id, "only a QUEUED job is released");
  if (!run.ok()) return run.status();
  if (!run->job().held) return run->job();
  const absl::Time now = dependencies_.clock.Now();
  Job job = run->job();
  absl::Status forgotten = ForgetFailedPriors(job);
  if (!forgotten.ok()) return forgotten;
  run->Released(std::move(job.after), now);
  journal_.Add(id, "released");
  // The time that the job was held is no time that it waited for the device.
  return StoreQueued(*run, now);
}

absl::StatusOr<Job> Scheduler::Move(const std::string& id, const MoveTo& to,
                                    const UserLimits& limits) {
  Turn turn(*this);
  turn.Wake(id);
  turn.AskForTick();
  absl::StatusOr<RunningJob> run = LoadQueued(id, "only a QUEUED job is moved");
  if (!run.ok()) return run.status();
  const Job& job = run->job();
  int32_t priority = job.priority;
  int64_t place = 0;
  bool among_all = false;
  if (to.where == MoveTo::Where::kPriority) {
    absl::Status allowed = CheckPriority(job.owner, limits, to.priority);
    if (!allowed.ok()) return allowed;
    if (to.priority == priority) return job;
    priority = to.priority;
  } else {
    // A retried job whose files are being removed is QUEUED in the store
    // alone.
    if (!view_.Position(id)) return NotStoredYet();
    among_all = to.among_all;
    place =
        view_.PlaceAt(to.where == MoveTo::Where::kTop ? JobQueue::Edge::kTop
                                                      : JobQueue::Edge::kBottom,
                      id, among_all);
    if (place == job.place && among_all == job.among_all) return job;
  }
  const std::string words = DescribeMove(job, to);
  run->MovedTo(place, among_all, priority, words, dependencies_.clock.Now());
  journal_.Add(id, words);
  return StoreQueued(*run, QueuedSince(id));
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
  absl::Status room = CheckRoomForResults(id, limits);
  if (!room.ok()) return room;
  // Until the row says QUEUED, which keeps the checkpoints from then on.
  const absl::StatusOr<FolderClaims::Use> use = claims_.Take({id}, nullptr);
  if (!use.ok()) return use.status();
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
  absl::Status allowed = CheckRunsAgain(*job, limits);
  if (!allowed.ok()) return allowed;
  absl::StatusOr<RunningJob> run =
      RunningJob::Load(dependencies_.store, *std::move(job));
  if (!run.ok()) return run.status();
  const absl::Time now = dependencies_.clock.Now();
  run->Retried(now);
  journal_.Add(id, "queued again");
  return StoreQueued(*run, now);
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
  return absl::AbortedError(absl::StrCat(
      "the job was told to stop, but that it is to run again cannot be stored: "
      "retry it once more when there is room (",
      stored.message(), ")"));
}

absl::StatusOr<Job> Scheduler::RetryFromScratch(const std::string& id,
                                                const UserLimits& limits) {
  // A start of the job takes this lock, too, so that nothing is removed of an
  // attempt.
  absl::MutexLock removing(&deletions_);
  const absl::StatusOr<FolderClaims::Removal> removal = claims_.Remove(id);
  if (!removal.ok()) return removal.status();
  {
    Turn turn(*this);
    turn.Wake(id);
    turn.AskForTick();
    absl::StatusOr<Job> job = LoadToRetry(id);
    if (!job.ok()) return job;
    absl::Status free = CheckIsNotNeeded(*job);
    if (!free.ok()) return free;
    if (job->state == State::kRunning) return RetryAttempt(true);
    absl::Status allowed = CheckRunsAgain(*job, limits);
    if (!allowed.ok()) return allowed;
    absl::StatusOr<RunningJob> run =
        RunningJob::Load(dependencies_.store, *std::move(job));
    if (!run.ok()) return run.status();
    run->Renewed(dependencies_.clock.Now());
    absl::Status stored = run->Flush(dependencies_.store);
    if (!stored.ok()) return stored;
    Stored(stored);
    counts_.Ask();
    journal_.Add(id, "queued again, from scratch");
  }
  // The job enters the queue without its files. Where mpsd is killed before, or
  // a file cannot be removed, the job's start removes them.
  const absl::Status cleared = RemoveRun(id);
  Turn turn(*this);
  turn.AskForTick();
  if (!cleared.ok()) journal_.Add(id, std::string(cleared.message()));
  absl::StatusOr<Job> job = dependencies_.store.Get(id);
  // Meanwhile somebody may have cancelled the job, and tried it again.
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
                     job.id, "` lets them go"));
  }
  const absl::StatusOr<std::string> user = dependencies_.store.UserOf(job.id);
  if (!user.ok()) return user.status();
  if (user->empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("job ", *user, ", which has not ended, uses files of job ",
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

}  // namespace mpsd::jobs
