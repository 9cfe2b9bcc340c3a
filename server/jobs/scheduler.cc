// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/scheduler.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/text.h"
#include "core/base/status_macros.h"
#include "server/jobs/job_files.h"
#include "server/jobs/job_id.h"
#include "server/jobs/meters.h"
#include "server/jobs/prior_jobs.h"
#include "server/jobs/submission.h"

// The Scheduler's part in jobs that wait for others or continue from the
// results of others (prior_jobs.h).

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
  // ShowAttempt needs the lock: of two turns that end concurrently, the later
  // one must show last, or readers keep the older attempt.
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
      gate_(options_.pause) {
  view_.SetHalfLife(options_.half_life);
}

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
  RETURN_IF_ERROR(StillWanted(request.wanted));
  const std::string hash = RequestHash(request);
  absl::StatusOr<std::optional<SubmitResult>> earlier =
      FindEarlier(request, hash);
  if (!earlier.ok()) return earlier.status();
  if (earlier->has_value()) return **std::move(earlier);

  RETURN_IF_ERROR(CheckAccepts(request));
  RETURN_IF_ERROR(CheckLimits(request));
  const FolderClaims::Watch watch = claims_.Begin();
  ASSIGN_OR_RETURN(NewJob made, MakeJob(request, hash));
  Job& job = made.job;

  RETURN_IF_ERROR(CheckAccepts(request));
  RETURN_IF_ERROR(CountInputs(request));
  // The folder comes before the row, so that a row in the store always finds
  // its files. A kill between the two leaves a folder, which a later start
  // removes.
  absl::Status status = dependencies_.files.Create(
      job.id, job.spec_json, RequestFile::Encode(request), made.checked.links,
      request.wanted);
  if (!status.ok()) return status;
  status = CheckAccepts(request);
  if (status.ok()) {
    status = Insert(job, request.limits, made.checked.note, watch);
  }
  if (status.ok()) {
    journal_.Add(job.id, "queued");
    journal_.Write();
    options_.on_change();
    return SubmitResult{std::move(job), false};
  }
  dependencies_.files.Remove(job.id);
  // Another call may have inserted a job with the same key meanwhile, which may
  // have been the last job that the user was allowed.
  if (!absl::IsAlreadyExists(status) && !absl::IsResourceExhausted(status)) {
    return status;
  }
  earlier = FindEarlier(request, hash);
  if (!earlier.ok()) return earlier.status();
  if (earlier->has_value()) return **std::move(earlier);
  return status;
}

absl::StatusOr<Scheduler::NewJob> Scheduler::MakeJob(
    const SubmitRequest& request, const std::string& hash) {
  const std::string id = ids_.Next();
  ASSIGN_OR_RETURN(
      Submission checked,
      CheckSubmission(request, id, dependencies_.files, dependencies_.blobs,
                      Memory(), ReadableJobs(request)));
  ASSIGN_OR_RETURN(std::vector<std::string> after,
                   PriorsOf(request, checked.named_jobs));
  NewJob made{checked.MakeJob(request), std::move(checked)};
  made.job.id = id;
  made.job.request_hash = hash;
  made.job.create_time = dependencies_.clock.Now();
  made.job.after = std::move(after);
  if (request.held) {
    made.job.held = true;
    made.job.hold_reason = "since its submission";
  }
  return made;
}

// Submit checks this again after each slow part: meanwhile the client may have
// gone, or Drain may have begun.
absl::Status Scheduler::CheckAccepts(const SubmitRequest& request) {
  RETURN_IF_ERROR(StillWanted(request.wanted));
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
  ASSIGN_OR_RETURN(std::optional<Job> job,
                   dependencies_.store.FindByIdempotencyKey(
                       request.owner, request.idempotency_key));
  if (!job.has_value()) return std::nullopt;
  if (job->request_hash != hash) {
    return absl::AlreadyExistsError(absl::StrCat(
        "idempotency_key '", request.idempotency_key, "' was used for job ",
        job->id, " with another request: choose another key"));
  }
  return SubmitResult{*std::move(job), true};
}

absl::Status Scheduler::CheckLimits(const SubmitRequest& request) {
  absl::Status status =
      CheckPriority(request.owner, request.limits, request.priority);
  if (status.ok()) {
    // Insert checks again, with the lock.
    status = CheckQueued(request.owner, request.limits,
                         view_.CountOf(request.owner));
  }
  return status.ok() ? CheckResultBytes(request.owner, request.limits) : status;
}

absl::Status Scheduler::CheckResultBytes(const std::string& owner,
                                         const UserLimits& limits) {
  if (dependencies_.ledger == nullptr || !limits.result_bytes) {
    return absl::OkStatus();
  }
  const absl::StatusOr<UserBytes> bytes = dependencies_.ledger->BytesOf(owner);
  return bytes.ok() ? CheckResults(owner, limits, bytes->results)
                    : bytes.status();
}

absl::Status Scheduler::CountInputs(const SubmitRequest& request) {
  if (dependencies_.ledger == nullptr) return absl::OkStatus();
  std::set<std::string> blobs;
  for (const InputFile& input : request.inputs) blobs.insert(input.sha256);
  return dependencies_.ledger->Use(request.owner, request.limits, blobs);
}

absl::Status Scheduler::Insert(Job& job, const UserLimits& limits,
                               const std::string& note,
                               const FolderClaims::Watch& watch) {
  // Until the row exists, which shows it from then on.
  ASSIGN_OR_RETURN(const FolderClaims::Use use,
                   claims_.Take(JobsNeededBy(job), &watch));
  const Event first{job.id, 1, job.create_time,
                    StateChanged{State::kQueued, note}};
  Turn turn(*this);
  if (draining_) return Stopping();
  // With the lock, under which every job enters the queue: of fifty concurrent
  // calls none bypasses the limit.
  absl::Status status =
      CheckQueued(job.owner, limits, view_.CountOf(job.owner));
  if (!status.ok()) return status;
  job.place = view_.LastPlace(job.owner, job.priority);
  status = dependencies_.store.Insert(job, first);
  if (!status.ok()) return status;
  Stored(status);
  // The row comes before the queue's entry: TryStart reads the row without this
  // lock, and drops an entry whose row the store does not have.
  Enqueue(job, job.create_time);
  counts_.Ask();
  return absl::OkStatus();
}

absl::Status Scheduler::Recover() {
  ASSIGN_OR_RETURN(const std::vector<std::string> ids,
                   dependencies_.store.Unfinished());
  RestoreUses();
  ASSIGN_OR_RETURN(const std::optional<std::string> drain,
                   dependencies_.store.Drain());
  Turn turn(*this);
  if (drain) SetStartBlocker(HoldReason::kDrained, *drain);
  base::Check(attempt_ == nullptr, "Recover comes before the first Tick");
  for (const std::string& id : ids) {
    RETURN_IF_ERROR(RecoverJob(id));
  }
  counts_.Ask();
  return absl::OkStatus();
}

void Scheduler::RestoreUses() {
  absl::StatusOr<std::vector<OwnerUse>> uses = dependencies_.store.OwnerUses();
  if (!uses.ok()) {
    journal_.Add(
        "",
        absl::StrCat(
            "the owners' use of the device cannot be read and counts as 0: ",
            uses.status().message()));
    return;
  }
  const absl::Duration now = dependencies_.clock.Monotonic();
  for (const OwnerUse& use : *uses) {
    view_.Restore(use, now, dependencies_.clock.Now());
  }
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
  // the daemon does not start if the write fails.
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
  if (stored.ok() && IsFinal(run->job().state)) waiting_.Changed(id);
  return stored;
}

void Scheduler::GiveUpRow(const std::string& id, const absl::Status& why) {
  const std::string message = absl::StrCat("unreadable row: ", why.message());
  const absl::Status marked = dependencies_.store.MarkUnreadable(
      id, message, dependencies_.clock.Now());
  if (marked.ok()) {
    dependencies_.exported_metrics.JobEnded(id, State::kFailed);
    waiting_.Changed(id);
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
  entry.name = job.name;
  entry.time_left = TimeLeft(job);
  entry.place = job.place;
  entry.among_all = job.among_all;
  entry.ticket = job.ticket;
  if (job.not_before) {
    // Setting back the wall clock must not lengthen the wait.
    entry.not_before =
        dependencies_.clock.Monotonic() +
        std::clamp(*job.not_before - dependencies_.clock.Now(),
                   absl::ZeroDuration(), options_.retry.max_backoff);
  }
  view_.Push(std::move(entry), job.held ? job.hold_reason : "");
  AwaitPriors(job);
}

void Scheduler::Drain() {
  draining_ = true;
  // The thread that holds the lock preempts the worker at the end of its turn:
  // Drain has set draining_ before, and Drain must not wait for a hanging
  // store.
  // A turn may have read draining_ just before; then the next Tick preempts,
  // which the daemon requests once Drain has returned.
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

namespace {

// This many waiting jobs are checked in one Tick; each may be a write.
constexpr size_t kLooks = 20;

}  // namespace

FindJob Scheduler::ReadableJobs(const SubmitRequest& request) {
  return [&request, this](const std::string& id) -> absl::StatusOr<Job> {
    if (request.may_read_job && !request.may_read_job(id)) {
      return absl::NotFoundError(id);
    }
    return dependencies_.store.Get(id);
  };
}

absl::StatusOr<std::vector<std::string>> Scheduler::PriorsOf(
    const SubmitRequest& request, const std::vector<std::string>& named) {
  std::vector<std::string> priors = named;
  std::set<std::string> known(named.begin(), named.end());
  ASSIGN_OR_RETURN(const PriorStates states,
                   dependencies_.store.StatesOf(request.after));
  for (const std::string& id : request.after) {
    const bool may_read = !request.may_read_job || request.may_read_job(id);
    // Only existing jobs can be named, and the id of a future job is unknown:
    // so no cycle can arise.
    if (!may_read || !states.contains(id)) {
      return absl::FailedPreconditionError(absl::StrCat(
          "after: there is no job '", base::Quotable(id),
          "' that you may wait for: `mpsctl list` shows the jobs"));
    }
    if (known.insert(id).second) priors.push_back(id);
  }
  return priors;
}

bool Scheduler::AwaitPriors(const Job& job) {
  if (!AwaitsPriors(job) || job.held) {
    waiting_.Forget(job.id);
    return false;
  }
  // Registered as a waiting job before the states are read: a job that ends in
  // between causes another check of this one.
  waiting_.Await(job.id, job.after);
  const absl::StatusOr<PriorStates> states =
      dependencies_.store.StatesOf(job.after);
  PriorStanding standing;
  if (states.ok()) {
    standing = StandingOf(job, *states);
  } else {
    standing.waits = absl::StrCat("the jobs that it waits for cannot be read: ",
                                  states.status().message());
  }
  if (standing.waits.empty() && standing.failed.empty()) {
    waiting_.Forget(job.id);
    return false;
  }
  // The next Tick stores the hold.
  if (!states.ok() || !standing.failed.empty()) waiting_.LookAt(job.id);
  view_.HoldJob(job.id,
                standing.failed.empty() ? standing.waits : standing.failed,
                absl::InfiniteDuration());
  return true;
}

bool Scheduler::StillAwaitsPriors(const Job& job) {
  if (!AwaitsPriors(job)) return false;
  Turn turn(*this);
  return AwaitPriors(job);
}

absl::Time Scheduler::LookAtWaiting() {
  absl::Time next = absl::InfiniteFuture();
  for (size_t i = 0; i < kLooks; ++i) {
    const std::optional<std::string> id = waiting_.Take();
    if (!id) return next;
    Turn turn(*this);
    turn.Wake(*id);
    // A job may be free to start, and further ones need a check.
    next = dependencies_.clock.Now();
    if (LookAtWaiting(*id)) continue;
    waiting_.LookAt(*id);
    return next + options_.poll_interval;
  }
  return next;
}

bool Scheduler::LookAtWaiting(const std::string& id) {
  absl::StatusOr<Job> job = dependencies_.store.Get(id);
  const bool lost =
      absl::IsNotFound(job.status()) || absl::IsDataLoss(job.status());
  if (!job.ok() && !lost) return false;
  if (lost || !AwaitsPriors(*job) || job->held) {
    // TryStart reports what is wrong with a row that cannot be read.
    waiting_.Forget(id);
    if (lost) view_.Unhold(id, dependencies_.clock.Now());
    return true;
  }
  const absl::StatusOr<PriorStates> states =
      dependencies_.store.StatesOf(job->after);
  if (!states.ok()) return false;
  const PriorStanding standing = StandingOf(*job, *states);
  if (!standing.failed.empty()) {
    return HoldForPrior(*std::move(job), standing.failed);
  }
  if (!standing.waits.empty()) {
    view_.HoldJob(id, standing.waits, absl::InfiniteDuration());
    return true;
  }
  waiting_.Forget(id);
  // The time that it waited for other jobs does not count as waiting for the
  // device.
  view_.Unhold(id, dependencies_.clock.Now());
  journal_.Add(id, "the jobs that it waited for have succeeded");
  return true;
}

bool Scheduler::HoldForPrior(Job job, const std::string& why) {
  const std::string id = job.id;
  absl::StatusOr<RunningJob> run =
      RunningJob::Load(dependencies_.store, std::move(job));
  if (!run.ok()) return false;
  run->Held(why, dependencies_.clock.Now());
  if (!Stored(run->Flush(dependencies_.store))) return false;
  waiting_.Forget(id);
  view_.HoldJob(id, why, absl::InfiniteDuration());
  journal_.Add(id, absl::StrCat("held: ", why));
  return true;
}

absl::Status Scheduler::ForgetFailedPriors(Job& job) {
  if (!AwaitsPriors(job)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const PriorStates states,
                   dependencies_.store.StatesOf(job.after));
  job.after = WithoutFailed(job, states);
  return absl::OkStatus();
}

bool Scheduler::TakeResults(const Job& job, spec::TrainSpec& spec,
                            std::string& spec_json) {
  if (JobsNamedBy(spec).empty()) return true;
  const auto find = [this](const std::string& id) {
    return dependencies_.store.Get(id);
  };
  absl::Status placed = PlaceResults(find, dependencies_.files, spec);
  const std::vector<std::string> left = JobsNamedBy(spec);
  if (placed.ok() && !left.empty()) {
    placed = absl::FailedPreconditionError(
        absl::StrCat("job ", left.front(), " has no result"));
  }
  if (placed.ok()) {
    spec_json = spec::ToJson(spec);
    // Before the row is RUNNING: if mpsd is killed in between, the next start
    // takes the results again.
    placed = dependencies_.files.ReplaceSpec(job.id, spec_json);
  }
  if (placed.ok()) return true;
  HoldForPath(job, std::string(placed.message()));
  return false;
}

}  // namespace mpsd::jobs
