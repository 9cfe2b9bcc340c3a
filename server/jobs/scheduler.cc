// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/scheduler.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "server/jobs/job_deletion.h"
#include "server/jobs/step_rate.h"
#include "server/jobs/submission.h"

namespace mpsd::jobs {
namespace {

absl::Status Stopping() {
  return absl::UnavailableError("mpsd is stopping: submit again later");
}

}  // namespace

Scheduler::Turn::Turn(Scheduler& s) ABSL_NO_THREAD_SAFETY_ANALYSIS : s_(s) {
  s_.mutex_.Lock();
}

Scheduler::Turn::~Turn() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  if (s_.draining_) s_.PreemptForDrain();
  // ShowAttempt needs the lock: of two turns that end at once, the later one
  // must show last, or readers keep the older attempt.
  s_.ShowAttempt();
  s_.mutex_.Unlock();
  s_.journal_.Write();
  s_.PublishCounts();
  if (!woken_.empty()) s_.hub_.Wake(woken_);
  if (wants_tick_) s_.options_.on_change();
}

Scheduler::Scheduler(Options options, Dependencies dependencies)
    : options_(std::move(options)),
      dependencies_(dependencies),
      ids_(dependencies.clock, options_.random),
      view_(dependencies.board.view()),
      hub_(dependencies.board.hub()),
      journal_([this](const std::string& id, const std::string& line) {
        if (!id.empty()) dependencies_.files.AppendLog(id, line);
        options_.log(id.empty() ? line : absl::StrCat("job ", id, ": ", line));
      }),
      gate_(options_.pause) {}

Scheduler::~Scheduler() {
  std::unique_ptr<Worker> worker;
  {
    absl::MutexLock lock(&mutex_);
    draining_ = true;
    if (attempt_) worker = attempt_->TakeWorker();
  }
  // Without the lock: destroying the worker joins its thread, whose last
  // callbacks take the lock and still find the attempt.
  worker.reset();
  journal_.Write();
}

absl::StatusOr<SubmitResult> Scheduler::Submit(const SubmitRequest& request) {
  if (absl::Status s = StillWanted(request.wanted); !s.ok()) return s;
  const std::string hash = RequestHash(request);
  absl::StatusOr<std::optional<SubmitResult>> earlier =
      FindEarlier(request, hash);
  if (!earlier.ok()) return earlier.status();
  if (earlier->has_value()) return **std::move(earlier);

  if (absl::Status s = CheckAccepts(request); !s.ok()) return s;
  Job job;
  job.id = ids_.Next();
  absl::StatusOr<Submission> checked = CheckSubmission(
      request, job.id, dependencies_.files, dependencies_.blobs, Memory());
  if (!checked.ok()) return checked.status();
  job.kind = request.kind;
  job.name = checked->name;
  job.spec_json = checked->spec_json;
  job.priority = request.priority;
  job.owner = request.owner;
  job.labels = request.labels;
  job.idempotency_key = request.idempotency_key;
  job.request_hash = hash;
  job.create_time = dependencies_.clock.Now();
  job.memory_bytes = checked->memory_bytes;
  job.checkpoint_bytes = checked->checkpoint_bytes;

  if (absl::Status s = CheckAccepts(request); !s.ok()) return s;
  // The folder comes before the row, so that a row in the store always finds
  // its files. A kill between the two leaves a folder, which a later start
  // removes.
  absl::Status status = dependencies_.files.Create(
      job.id, job.spec_json, checked->links, request.wanted);
  if (!status.ok()) return status;
  status = CheckAccepts(request);
  if (status.ok()) status = Insert(job, checked->note);
  if (status.ok()) {
    journal_.Add(job.id, "queued");
    journal_.Write();
    options_.on_change();
    return SubmitResult{std::move(job), false};
  }
  dependencies_.files.Remove(job.id);
  if (!absl::IsAlreadyExists(status)) return status;
  // Another call inserted a job with the same key meanwhile.
  earlier = FindEarlier(request, hash);
  if (!earlier.ok()) return earlier.status();
  if (earlier->has_value()) return **std::move(earlier);
  return status;
}

// Submit asks this again after each slow part: meanwhile the client may have
// gone, or Drain may have begun.
absl::Status Scheduler::CheckAccepts(const SubmitRequest& request) {
  if (absl::Status s = StillWanted(request.wanted); !s.ok()) return s;
  return draining_ ? Stopping() : absl::OkStatus();
}

MachineMemory Scheduler::Memory() const {
  const ManagerInfo info = view_.Info();
  return {options_.machine_bytes, info.device,
          info.memory.recommended_max_bytes.value_or(0)};
}

absl::StatusOr<std::optional<SubmitResult>> Scheduler::FindEarlier(
    const SubmitRequest& request, const std::string& hash) {
  if (request.idempotency_key.empty()) return std::nullopt;
  absl::StatusOr<std::optional<Job>> job =
      dependencies_.store.FindByIdempotencyKey(request.idempotency_key);
  if (!job.ok()) return job.status();
  if (!job->has_value()) return std::nullopt;
  if ((*job)->request_hash != hash) {
    return absl::AlreadyExistsError(absl::StrCat(
        "idempotency_key '", request.idempotency_key, "' was used for job ",
        (*job)->id, " with another request: choose another key"));
  }
  return SubmitResult{**std::move(job), true};
}

absl::Status Scheduler::Insert(const Job& job, const std::string& note) {
  const Event first{job.id, 1, job.create_time,
                    StateChanged{State::kQueued, note}};
  Turn turn(*this);
  if (draining_) return Stopping();
  absl::Status status = dependencies_.store.Insert(job, first);
  if (!status.ok()) return status;
  Stored(status);
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
  absl::StatusOr<Job> job = dependencies_.store.Get(id);
  if (!job.ok() || IsFinal(job->state)) return job;
  if (job->state == State::kRunning) {
    return absl::AbortedError(
        "the end of the job's last attempt is not stored yet: try again");
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

absl::StatusOr<Job> Scheduler::Retry(const std::string& id) {
  Turn turn(*this);
  turn.Wake(id);
  turn.AskForTick();
  absl::StatusOr<Job> job = dependencies_.store.Get(id);
  if (!job.ok()) return job;
  if (draining_) {
    return absl::UnavailableError("mpsd is stopping: try again later");
  }
  if (job->state != State::kFailed && job->state != State::kCancelled) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", id, " is ", std::string(Name(job->state)),
                     ": only a FAILED or CANCELLED job is tried again"));
  }
  absl::StatusOr<RunningJob> run =
      RunningJob::Load(dependencies_.store, *std::move(job));
  if (!run.ok()) return run.status();
  const absl::Time now = dependencies_.clock.Now();
  run->Retried(now);
  absl::Status stored = run->Flush(dependencies_.store);
  if (!stored.ok()) return stored;
  Stored(stored);
  Enqueue(run->job(), now);
  counts_.Ask();
  journal_.Add(id, "queued again");
  return run->job();
}

absl::StatusOr<int64_t> Scheduler::Delete(const std::string& id) {
  {
    absl::MutexLock lock(&mutex_);
    // Until Reap the row may still say RUNNING, and DeleteRow would advise to
    // cancel a job that has ended.
    if (attempt_ && attempt_->ended() && attempt_->id() == id) {
      return absl::UnavailableError(
          "the end of the job's last attempt is not stored yet: try again");
    }
  }
  {
    // Two deletions may both read a job's row. The later one would find no row
    // to remove, and take back the mark that the first still needs.
    absl::MutexLock turn(&deletions_);
    absl::Status status =
        DeleteRow(dependencies_.store, dependencies_.files, id);
    if (!status.ok()) return status;
  }
  dependencies_.exported_metrics.JobDeleted(id);
  counts_.Ask();
  PublishCounts();
  journal_.Add("", absl::StrCat("job ", id, ": deleted"));
  journal_.Write();
  hub_.Wake(id);
  return dependencies_.files.FinishDelete(id);
}

absl::Status Scheduler::Recover() {
  const absl::StatusOr<std::vector<std::string>> ids =
      dependencies_.store.Unfinished();
  if (!ids.ok()) return ids.status();
  Turn turn(*this);
  base::Check(attempt_ == nullptr, "Recover comes before the first Tick");
  for (const std::string& id : *ids) {
    if (absl::Status s = RecoverJob(id); !s.ok()) return s;
  }
  counts_.Ask();
  return absl::OkStatus();
}

absl::Status Scheduler::RecoverJob(const std::string& id) {
  const absl::Time now = dependencies_.clock.Now();
  absl::StatusOr<Job> job = dependencies_.store.Get(id);
  if (job.ok() && job->state == State::kQueued) {
    Enqueue(*job, job->create_time);
    return absl::OkStatus();
  }
  absl::StatusOr<RunningJob> run =
      job.ok() ? RunningJob::Load(dependencies_.store, *std::move(job))
               : job.status();
  if (absl::IsDataLoss(run.status())) {
    GiveUpRow(id, run.status());
    return absl::OkStatus();
  }
  if (!run.ok()) return run.status();
  if (run->job().cancel_requested) {
    run->Moved(State::kCancelled, "cancelled; mpsd ended before the worker did",
               now);
  } else {
    const Result result = Interruption(run->job(), options_.boot_id);
    run->Ended(result, DecideNext(options_.retry, run->job(), result, now),
               now);
  }
  // The queue may know the job before the row is written: no Tick runs yet, and
  // the daemon does not start where the write fails.
  if (run->job().state == State::kQueued) {
    dependencies_.exported_metrics.JobReturned(ExitReason::kInterrupted);
    Enqueue(run->job(), now);
  } else {
    dependencies_.exported_metrics.JobEnded(id, run->job().state);
  }
  journal_.Add(id, run->job().message);
  absl::Status stored = run->Flush(dependencies_.store);
  if (absl::IsResourceExhausted(stored) && dependencies_.files.MakeRoom()) {
    stored = run->Flush(dependencies_.store);
  }
  return stored;
}

void Scheduler::GiveUpRow(const std::string& id, const absl::Status& why) {
  const std::string message = absl::StrCat("unreadable row: ", why.message());
  const absl::Status marked = dependencies_.store.MarkUnreadable(
      id, message, dependencies_.clock.Now());
  if (marked.ok()) {
    dependencies_.exported_metrics.JobEnded(id, State::kFailed);
  }
  journal_.Add(id, marked.ok()
                       ? message
                       : absl::StrCat(message, "; nor can it be marked: ",
                                      marked.message()));
  counts_.Ask();
}

void Scheduler::Enqueue(const Job& job, absl::Time since) {
  JobQueue::Entry entry;
  entry.id = job.id;
  entry.priority = job.priority;
  entry.since = since;
  entry.behind = job.behind;
  entry.owner = job.owner;
  entry.time_left = TimeLeft(job);
  if (job.not_before) {
    // A wall clock that was set back since must not lengthen the wait.
    entry.not_before =
        dependencies_.clock.Monotonic() +
        std::clamp(*job.not_before - dependencies_.clock.Now(),
                   absl::ZeroDuration(), options_.retry.max_backoff);
  }
  view_.Push(std::move(entry));
}

void Scheduler::Drain() {
  draining_ = true;
  // The thread that holds the lock preempts the worker at the end of its turn:
  // Drain has set draining_ before, and Drain must not wait for a store that
  // hangs.
  // A turn may have read draining_ just before; then the next Tick preempts,
  // which the daemon asks for once Drain has returned.
  if (!mutex_.TryLock()) return;
  PreemptForDrain();
  mutex_.Unlock();
  journal_.Write();
}

void Scheduler::PreemptForDrain() {
  if (attempt_) attempt_->PreemptForDrain();
}

void Scheduler::ShowAttempt() {
  idle_ = attempt_ == nullptr;
  const bool runs = attempt_ && !attempt_->ended();
  const PauseReasons& reasons = gate_.reasons();
  view_.Change([&](ManagerInfo& info) { info.pause_reasons = reasons; });
  view_.SetRunning(runs ? attempt_->id() : "",
                   runs ? attempt_->ShownPause(reasons)
                        : Pause{reasons, false, std::nullopt});
}

void Scheduler::SetPausePolicy(PausePolicy policy) {
  absl::MutexLock lock(&mutex_);
  gate_.SetPolicy(std::move(policy));
}

void Scheduler::PublishCounts() {
  counts_.Run([this] {
    dependencies_.exported_metrics.QueueChanged(view_.Depth());
    absl::StatusOr<std::map<State, int64_t>> jobs =
        dependencies_.store.CountByState();
    if (!jobs.ok()) return;
    dependencies_.exported_metrics.JobCounts(*jobs);
    view_.Change([&](ManagerInfo& info) { info.jobs = *std::move(jobs); });
  });
}

void Scheduler::SetStartBlocker(HoldReason reason, const std::string& why) {
  if (!view_.SetQueueHold(reason, why)) return;
  dependencies_.exported_metrics.Held(view_.holds());
  const std::string name(Name(reason));
  journal_.Add("", why.empty()
                       ? absl::StrCat("jobs start again (", name, ")")
                       : absl::StrCat("no job starts (", name, "): ", why));
}

bool Scheduler::Stored(const absl::Status& status) {
  if (status.ok()) {
    SetStartBlocker(HoldReason::kStorage, "");
  } else if (!view_.holds().contains(HoldReason::kStorage)) {
    SetStartBlocker(
        HoldReason::kStorage,
        absl::StrCat("the queue cannot be written, what happens waits in "
                     "memory: ",
                     status.message()));
  }
  return status.ok();
}

}  // namespace mpsd::jobs
