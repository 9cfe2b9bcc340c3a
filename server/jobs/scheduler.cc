// SPDX-License-Identifier: Apache-2.0
// The scheduler from its start to its end: recovery, Tick, which frees the
// device and starts the next attempt, the division of the device among its
// users, and the reports of the worker. Users' changes are in
// scheduler_verbs.cc.
#include "server/jobs/scheduler.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"

namespace mpsd::jobs {
namespace {

// This many waiting jobs are checked in one Tick; each may be a write.
constexpr size_t kLooks = 20;

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

Scheduler::Scheduler(Options options, const Dependencies& dependencies)
    : options_(std::move(options)),
      store_(dependencies.store),
      files_(dependencies.files),
      launcher_(dependencies.launcher),
      exported_metrics_(dependencies.exported_metrics),
      clock_(dependencies.clock),
      host_(dependencies.host),
      ledger_(dependencies.ledger),
      view_(dependencies.board.view()),
      hub_(dependencies.board.hub()),
      journal_([this](const std::string& id, const std::string& line) {
        if (!id.empty()) files_.AppendLog(id, line);
        options_.log(id.empty() ? line : absl::StrCat("job ", id, ": ", line));
      }),
      blockers_(view_, exported_metrics_, journal_, options_.give_up),
      priors_({store_, view_, blockers_, journal_, clock_}),
      remover_({store_, files_, hub_, journal_, exported_metrics_,
                dependencies.kept, dependencies.folders,
                dependencies.keep_record,
                [this](const std::string& id) { return CheckStoredEnd(id); },
                [this] {
                  counts_.Ask();
                  PublishCounts();
                }}),
      checks_({options_.min_free_bytes, options_.retry},
              {store_, files_, launcher_, remover_, view_, blockers_, journal_,
               clock_}),
      host_watch_(host_, options_.host_interval, clock_),
      submitter_(options_.machine_bytes, options_.random,
                 {store_, dependencies.blobs, files_, view_, clock_,
                  remover_.claims(), ledger_, draining_}),
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

absl::Status Scheduler::Recover() {
  ASSIGN_OR_RETURN(const std::vector<std::string> ids, store_.Unfinished());
  RestoreUses();
  ASSIGN_OR_RETURN(const std::optional<std::string> drain, store_.Drain());
  Turn turn(*this);
  if (drain) blockers_.Set(HoldReason::kDrained, *drain);
  base::Check(attempt_ == nullptr, "Recover comes before the first Tick");
  for (const std::string& id : ids) {
    RETURN_IF_ERROR(RecoverJob(id));
  }
  counts_.Ask();
  return absl::OkStatus();
}

void Scheduler::RestoreUses() {
  absl::StatusOr<std::vector<OwnerUse>> uses = store_.OwnerUses();
  if (!uses.ok()) {
    journal_.Add(
        "",
        absl::StrCat(
            "the owners' use of the device cannot be read and counts as 0: ",
            uses.status().message()));
    return;
  }
  const absl::Duration now = clock_.Monotonic();
  for (const OwnerUse& use : *uses) {
    view_.Restore(use, now, clock_.Now());
  }
}

absl::Status Scheduler::RecoverJob(const std::string& id) {
  const absl::Time now = clock_.Now();
  absl::StatusOr<Job> job = store_.Get(id);
  if (job.ok() && job->state == State::kQueued) {
    Enqueue(*job, job->create_time);
    return absl::OkStatus();
  }
  absl::StatusOr<RunningJob> run =
      job.ok() ? RunningJob::Load(store_, *std::move(job)) : job.status();
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
    exported_metrics_.JobReturned(ExitReason::kInterrupted);
    Enqueue(run->job(), now);
  } else {
    exported_metrics_.JobEnded(id, run->job().state);
  }
  journal_.Add(id, run->job().message);
  const absl::Status stored =
      files_.WithRoom([&] { return run->Flush(store_); });
  if (stored.ok() && IsFinal(run->job().state)) priors_.Ended(id);
  return stored;
}

void Scheduler::GiveUpRow(const std::string& id, const absl::Status& why) {
  const std::string message = absl::StrCat("unreadable row: ", why.message());
  const absl::Status marked = store_.MarkUnreadable(id, message, clock_.Now());
  if (marked.ok()) {
    exported_metrics_.JobEnded(id, State::kFailed);
    priors_.Ended(id);
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
  entry.runs_last = job.runs_last;
  entry.owner = job.owner;
  entry.name = job.name;
  entry.time_left = TimeLeft(job);
  entry.place = job.place;
  entry.among_all = job.among_all;
  entry.ticket = job.ticket;
  if (job.not_before) {
    // Setting back the wall clock must not lengthen the wait.
    entry.not_before =
        clock_.Monotonic() + std::clamp(*job.not_before - clock_.Now(),
                                        absl::ZeroDuration(),
                                        options_.retry.max_backoff);
  }
  // Before the push, after which a Tick may start the job.
  const bool check = options_.check_patience > absl::ZeroDuration() &&
                     job.kind == JobKind::kTraining && job.attempt == 0 &&
                     !job.fresh && !view_.Position(job.id);
  if (check) entry.not_before = clock_.Monotonic() + options_.check_patience;
  view_.Push(std::move(entry), job.held ? job.hold_reason : "");
  if (check) view_.AwaitCheck(job.id);
  priors_.Await(job);
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

void Scheduler::ShowAttempt() {
  idle_ = attempt_ == nullptr;
  const bool runs = attempt_ && !attempt_->ended();
  const PauseReasons& reasons = gate_.reasons();
  view_.Change([&](QueueInfo& info) { info.pause_reasons = reasons; });
  view_.SetRunning(runs ? attempt_->id() : "",
                   runs ? attempt_->ShownPause(reasons)
                        : Pause{reasons, false, std::nullopt});
}

void Scheduler::PublishCounts() {
  counts_.Run([this] {
    exported_metrics_.QueueChanged(view_.Depth());
    absl::StatusOr<std::map<State, int64_t>> jobs = store_.CountByState();
    if (!jobs.ok()) return;
    exported_metrics_.JobCounts(*jobs);
    view_.Change([&](QueueInfo& info) { info.jobs = *std::move(jobs); });
  });
}

absl::Time Scheduler::WallTime(absl::Duration time) const {
  if (time == absl::InfiniteDuration()) return absl::InfiniteFuture();
  return clock_.Now() + (time - clock_.Monotonic());
}

absl::Time Scheduler::Tick() {
  const absl::Time next_read = ReadHostIfDue();
  const bool free = Reap();
  const absl::Time next = std::min(next_read, LookAtWaiting());
  if (!free) return std::min({next, TendAttempt(), ConsiderPreemption()});
  const absl::Time after_start = StartNext();
  // A job that cannot start, and has FAILED, may be one that others wait for.
  return std::min({next, after_start, LookAtWaiting()});
}

absl::Time Scheduler::ReadHostIfDue() {
  const std::optional<host::Reading> reading = host_watch_.ReadIfDue();
  if (reading) {
    exported_metrics_.HostRead(*reading);
    Turn turn(*this);
    view_.Change([&](QueueInfo& info) { info.host = *reading; });
    const std::string news = host_watch_.NewsOf(gate_.Unobservable(*reading));
    if (!news.empty()) journal_.Add("", news);
    gate_.Observe(*reading, clock_.Now(), host_watch_.read_at());
    exported_metrics_.Paused(gate_.reasons());
    if (ApplyPauseReasons()) turn.Wake(attempt_->id());
  }
  return host_watch_.NextTime();
}

bool Scheduler::ApplyPauseReasons() {
  if (!attempt_ || draining_ || !attempt_->ApplyPauseReasons(gate_)) {
    return false;
  }
  FlushAttempt();
  return true;
}

bool Scheduler::Reap() {
  // `over` is destroyed after the turn, without the lock: its destructor joins
  // the worker's thread, which may be on its way out of OnExit.
  std::unique_ptr<Attempt> over;
  Turn turn(*this);
  if (!attempt_) return true;
  if (!attempt_->ended()) return false;
  // The store refused the end when the worker reported it.
  const bool late = attempt_->dirty();
  if (!FlushAttempt()) return false;
  if (late) {
    counts_.Ask();
    turn.Wake(attempt_->id());
  }
  over = std::move(attempt_);
  return true;
}

absl::Time Scheduler::LookAtWaiting() {
  absl::Time next = absl::InfiniteFuture();
  for (size_t i = 0; i < kLooks; ++i) {
    const std::optional<std::string> id = priors_.Take();
    if (!id) return next;
    Turn turn(*this);
    turn.Wake(*id);
    // A job may be free to start, and further ones need a check.
    next = clock_.Now();
    if (!priors_.Look(*id)) return next + options_.poll_interval;
  }
  return next;
}

absl::Time Scheduler::TendAttempt() {
  Turn turn(*this);
  const absl::Time now = clock_.Now();
  // Reap left the attempt in place, and no other thread removes it between the
  // two turns.
  if (attempt_->ended()) return now + options_.poll_interval;
  if (LimitTime() <= now) {
    attempt_->StopForTime(TimeLimitOf(attempt_->job()));
  }
  const absl::Time limit = LimitTime();
  const absl::Duration age = attempt_->flush_age();
  if (attempt_->is_measured() && age >= options_.use_interval) ChargeAttempt();
  if (!attempt_->dirty()) return std::min(limit, ChargeTime());
  if (age < options_.progress_interval) {
    return std::min(limit, now + (options_.progress_interval - age));
  }
  if (!FlushAttempt()) return now + options_.poll_interval;
  turn.Wake(attempt_->id());
  return std::min(limit, ChargeTime());
}

absl::Time Scheduler::StartNext() {
  const absl::Duration now = clock_.Monotonic();
  {
    absl::MutexLock lock(&mutex_);
    // The next reading of the machine, for which Tick() returns the time,
    // brings the next attempt.
    if (draining_ || !gate_.reasons().empty()) return absl::InfiniteFuture();
    if (machine_faults_ > 0 && !view_.empty() && now < machine_wait_) {
      return WallTime(machine_wait_);
    }
  }
  if (blockers_.Has(HoldReason::kDrained)) {
    ForgetTries();
    return absl::InfiniteFuture();
  }
  while (const std::optional<JobQueue::Entry> next = view_.Next(now)) {
    switch (TryStart(*next)) {
      case StartResult::kPassedOver:
        continue;
      case StartResult::kHeld:
        return WallTime(now + options_.poll_interval);
      case StartResult::kStarted:
        absl::MutexLock lock(&mutex_);
        // An attempt that ended meanwhile, as after a failed launch, still
        // holds the device: the next Tick must reap it at once.
        return attempt_->ended() ? WallTime(now)
                                 : std::min(LimitTime(), ChargeTime());
    }
  }
  ForgetTries();
  return WallTime(view_.NextTime());
}

void Scheduler::ForgetTries() {
  for (HoldReason reason :
       {HoldReason::kDevice, HoldReason::kDisk, HoldReason::kMachine}) {
    blockers_.Set(reason, "");
  }
  journal_.Write();
}

bool Scheduler::StillAwaitsPriors(const Job& job) {
  if (!AwaitsPriors(job)) return false;
  Turn turn(*this);
  return priors_.Await(job);
}

Scheduler::StartResult Scheduler::TryStart(const JobQueue::Entry& entry) {
  blockers_.Set(HoldReason::kMachine, "");
  const absl::StatusOr<Job> job = store_.Get(entry.id);
  if (absl::IsNotFound(job.status()) || absl::IsDataLoss(job.status())) {
    view_.Remove(entry.id);
    counts_.Ask();
    if (absl::IsDataLoss(job.status())) GiveUpRow(entry.id, job.status());
    journal_.Write();
    PublishCounts();
    hub_.Wake(entry.id);
    return StartResult::kPassedOver;
  }
  bool ready = job.ok() ? checks_.IsReady() : blockers_.Stored(job.status());
  spec::TrainSpec spec = ready ? SpecOf(*job) : spec::TrainSpec();
  if (ready && !HasTime(*job)) {
    return FailForTime(entry.id) ? StartResult::kPassedOver
                                 : StartResult::kHeld;
  }
  if (ready && StillAwaitsPriors(*job)) return StartResult::kPassedOver;
  std::string spec_json;
  if (ready && (!checks_.TakeResults(*job, spec, spec_json) ||
                !checks_.HasItsFiles(*job, spec) ||
                (job->fresh && !checks_.Clear(entry.id)))) {
    journal_.Write();
    return StartResult::kPassedOver;
  }
  LaunchRequest request;
  if (ready) {
    std::vector<std::string> read = ReadInState(job->uses, spec, files_);
    const std::string changed = ChangedInputs(*job, spec, files_);
    Turn turn(*this);
    // Drain, Cancel or Hold may have come while files were checked without the
    // lock.
    if (draining_ || blockers_.Has(HoldReason::kDrained)) {
      return StartResult::kHeld;
    }
    const std::optional<JobQueue::Entry> now = view_.Find(entry.id);
    if (!now || now->WaitsForSomebody()) return StartResult::kPassedOver;
    ready = Start(entry, spec, spec_json, job->fresh, changed).ok();
    if (ready) {
      request =
          LaunchRequestOf(attempt_->job(), spec, options_.hang_timeout, files_);
      request.results_read = std::move(read);
    }
  }
  journal_.Write();
  if (!ready) return StartResult::kHeld;
  ForgetUses();
  Launch(request);
  hub_.Wake(entry.id);
  return StartResult::kStarted;
}

absl::Status Scheduler::Start(const JobQueue::Entry& entry,
                              const spec::TrainSpec& spec,
                              const std::string& spec_json, bool cleared,
                              const std::string& changed) {
  // Reads the row again, now with the lock: a Cancel and a Retry may have
  // changed the row since TryStart read it.
  ASSIGN_OR_RETURN(Job job, store_.Get(entry.id));
  if (job.fresh && !cleared) {
    return absl::AbortedError("queued again from scratch meanwhile");
  }
  TakeTurn(entry.id, job);
  ASSIGN_OR_RETURN(RunningJob run, RunningJob::Load(store_, std::move(job)));
  if (!spec_json.empty()) run.Respecified(spec_json);
  if (!changed.empty()) run.Warned(changed, clock_.Now());
  absl::StatusOr<std::unique_ptr<Attempt>> attempt = Attempt::Start(
      std::move(run),
      {options_.boot_id, options_.stop_grace, options_.awake_time},
      {store_, journal_, clock_, host_});
  if (!blockers_.Stored(attempt.status())) return attempt.status();

  view_.Start(entry.id);
  base::Check(attempt_ == nullptr, "the device holds one attempt");
  attempt_ = *std::move(attempt);
  exported_metrics_.JobStarted(
      DescribeStart(attempt_->job(), spec, entry.since));
  counts_.Ask();
  journal_.Add(entry.id,
               absl::StrCat("attempt ", attempt_->job().attempt, " starts"));
  return absl::OkStatus();
}

void Scheduler::TakeTurn(const std::string& id, Job& job) {
  const std::optional<JobQueue::Heir> heir = view_.TakeTurn(id);
  if (!heir) return;
  // A kill between this and the start leaves the same ticket twice, and costs
  // the owner a turn.
  if (const auto entry = view_.Find(id)) job.ticket = entry->ticket;
  absl::StatusOr<Job> other = store_.Get(heir->id);
  if (!other.ok()) return;
  other->ticket = heir->ticket;
  blockers_.Stored(store_.Update(*other, {}));
}

void Scheduler::Launch(const LaunchRequest& request) {
  absl::StatusOr<std::unique_ptr<Worker>> worker =
      launcher_.Launch(request, *this);
  Verdict verdict;
  if (!worker.ok()) {
    verdict.launched = false;
    verdict.result.reason = ExitReason::kMachine;
    verdict.result.message = absl::StrCat("the worker could not be started: ",
                                          worker.status().message());
  }
  Turn turn(*this);
  if (!worker.ok()) return EndAttempt(verdict);
  attempt_->AttachWorker(*std::move(worker));
}

Attempt& Scheduler::ReportingAttempt() {
  base::Check(attempt_ != nullptr, "a worker reports within its attempt");
  return *attempt_;
}

void Scheduler::OnHello(const Identity& identity) {
  Turn turn(*this);
  view_.Change([&](QueueInfo& info) {
    info.worker_version = identity.worker_version;
    info.torch_version = identity.torch_version;
  });
  journal_.Add(ReportingAttempt().id(),
               absl::StrCat("worker ", identity.worker_version, ", torch ",
                            identity.torch_version, ", pid ", identity.pid));
}

void Scheduler::OnDevice(const std::string& device) {
  Turn turn(*this);
  view_.Change([&](QueueInfo& info) { info.device = device; });
  ReportingAttempt().DeviceOpened(device);
  exported_metrics_.DeviceOpened(attempt_->id(), device);
}

void Scheduler::OnProgress(const Progress& progress) {
  Turn turn(*this);
  Attempt& attempt = ReportingAttempt();
  view_.Change([&](QueueInfo& info) {
    info.device = progress.device;
    info.memory = progress.memory;
  });
  attempt.Progressed(progress);
  exported_metrics_.StepFinished(attempt.id(), *attempt.job().progress);
  const bool last = progress.step == progress.total_steps;
  if (attempt.flush_age() < options_.progress_interval && !last) {
    turn.AskForTick();  // writes the step if no later step does
    return;
  }
  FlushAttempt();
  turn.Wake(attempt.id());
}

void Scheduler::OnEvaluated(const jobs::Evaluated& evaluated) {
  Turn turn(*this);
  Attempt& attempt = ReportingAttempt();
  attempt.Evaluated(evaluated);
  exported_metrics_.Evaluated(attempt.id(), attempt.device(), evaluated);
  FlushAttempt();
  turn.Wake(attempt.id());
}

void Scheduler::OnSampled(const report::Sampled& sampled) {
  Turn turn(*this);
  ReportingAttempt().Sampled(sampled);
  FlushAttempt();
  turn.Wake(attempt_->id());
}

void Scheduler::OnCheckpoint(const report::Checkpointed& checkpoint) {
  Turn turn(*this);
  Attempt& attempt = ReportingAttempt();
  attempt.CheckpointWritten({checkpoint, clock_.Now()});
  machine_faults_ = 0;
  exported_metrics_.CheckpointWritten(attempt.id(), attempt.device(),
                                      checkpoint.seconds);
  FlushAttempt();
  turn.Wake(attempt.id());
}

void Scheduler::OnHeartbeat(const std::string& stage, double fraction) {
  static_cast<void>(fraction);
  if (stage.empty()) return;  // only counts for the hang limit
  Turn turn(*this);
  ReportingAttempt().Staged(stage);
  exported_metrics_.StageBegan(stage);
  FlushAttempt();
  turn.Wake(attempt_->id());
}

void Scheduler::OnWarning(const std::string& text) {
  Turn turn(*this);
  ReportingAttempt().Warned(text);
  FlushAttempt();
  turn.Wake(attempt_->id());
}

void Scheduler::OnHeld() {
  Turn turn(*this);
  exported_metrics_.WorkerHalts(true);
  if (!ReportingAttempt().is_paused()) return;  // a Resume is on its way
  // The machine may sleep from Held() on, and no later step would write the
  // step that OnProgress held back: store it now.
  FlushAttempt();
  attempt_->Held();
  turn.Wake(attempt_->id());
}

void Scheduler::OnResumed() {
  Turn turn(*this);
  ReportingAttempt().Resumed();
  exported_metrics_.WorkerHalts(false);
  turn.Wake(attempt_->id());
  turn.AskForTick();  // its time on the device counts again
}

void Scheduler::OnExit(const Result& result) {
  Job job;
  {
    absl::MutexLock lock(&mutex_);
    // OnExit copies the row, because JudgeEnd checks the disk without the lock.
    // The attempt remains meanwhile: Reap removes only one that has ended.
    job = ReportingAttempt().job();
  }
  const Verdict verdict =
      JudgeEnd(result, job, options_.min_free_bytes, files_);
  Turn turn(*this);
  EndAttempt(verdict);
  turn.Wake(job.id);
  turn.AskForTick();
}

void Scheduler::EndAttempt(const Verdict& verdict) {
  Attempt::Ending ending =
      ReportingAttempt().DecideEnding(verdict.result, options_.retry);
  const ExitReason reason = ending.result.reason;
  const bool returns = ending.next.state == State::kQueued;
  if (reason == ExitReason::kMachine && returns) {
    BlameMachine(verdict, ending.result.message, ending.next);
  } else {
    machine_faults_ = 0;
  }
  attempt_->End(ending);
  exported_metrics_.WorkerExited(reason);
  const Job& job = attempt_->job();
  if (returns) {
    exported_metrics_.JobReturned(reason);
    // The entry may come before the row is stored: no job starts until Reap has
    // stored the end and freed the device.
    Enqueue(job, clock_.Now());
    if (!verdict.job_lacks.empty()) {
      view_.HoldJob(job.id, verdict.job_lacks,
                    clock_.Monotonic() + options_.retry.first_backoff);
    }
  } else {
    exported_metrics_.JobEnded(job.id, job.state);
  }
  FlushAttempt();
  counts_.Ask();
}

void Scheduler::BlameMachine(const Verdict& verdict, const std::string& text,
                             NextState& next) {
  if (!verdict.job_lacks.empty()) return;  // this job waits, the queue does not
  const absl::Duration wait = Backoff(options_.retry, ++machine_faults_);
  machine_wait_ = clock_.Monotonic() + wait;
  next.message =
      absl::StrCat("this machine's fault, not counted, looked at again in ",
                   absl::FormatDuration(wait), ": ", text);
  // If nothing explains the fault, let other jobs run first: if they meet it
  // too, the machine is at fault, not this job.
  next.runs_last = verdict.disk_lacks.empty() && verdict.launched;
  blockers_.Set(HoldReason::kMachine,
                absl::StrCat("job ", attempt_->id(), " met ", text));
}

bool Scheduler::FlushAttempt() {
  if (!attempt_->dirty()) return true;
  ChargeAttempt();
  if (!blockers_.Stored(attempt_->Flush())) return false;
  if (IsFinal(attempt_->job().state)) priors_.Ended(attempt_->id());
  return true;
}

void Scheduler::ChargeAttempt() {
  const absl::Duration used = attempt_->TakeUse();
  if (used <= absl::ZeroDuration()) return;
  attempt_->Charge(used, view_.Charge(attempt_->job().owner, used,
                                      clock_.Monotonic(), clock_.Now()));
}

void Scheduler::ForgetUses() {
  const std::vector<std::string> forgotten =
      view_.ForgetUses(clock_.Monotonic());
  if (forgotten.empty()) return;
  // Rows that remain are forgotten again after a restart.
  store_.ForgetUses(forgotten).IgnoreError();
}

absl::Time Scheduler::LimitTime() const {
  if (!attempt_->may_be_stopped()) return absl::InfiniteFuture();
  const absl::Duration limit = TimeLimitOf(attempt_->job());
  if (limit == absl::InfiniteDuration()) return absl::InfiniteFuture();
  const absl::Duration held = attempt_->DeviceTime();
  if (held < limit) return clock_.Now() + (limit - held);
  return absl::InfinitePast();
}

absl::Time Scheduler::ConsiderPreemption() {
  absl::Time again = absl::InfiniteFuture();
  const std::optional<JobQueue::Entry> challenger = FindChallenger(again);
  if (!challenger) return again;
  if (!CouldStart(challenger->id)) {
    return clock_.Now() + options_.poll_interval;
  }
  {
    Turn turn(*this);
    // Files were accessed without the lock: meanwhile the attempt may have
    // ended, or the challenger may have left the queue.
    if (draining_ || !attempt_->may_be_stopped() ||
        !view_.Position(challenger->id)) {
      return clock_.Now() + options_.poll_interval;
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
  const absl::Duration now = clock_.Monotonic();
  absl::MutexLock lock(&mutex_);
  // What keeps every job from starting keeps this one running: a pause, a stop,
  // a store that accepts no writes.
  if (!options_.preemption.enabled || draining_ ||
      blockers_.Has(HoldReason::kDrained) || !attempt_->may_be_stopped() ||
      !gate_.reasons().empty() || blockers_.Has(HoldReason::kStorage)) {
    return std::nullopt;
  }
  const Holder holder = attempt_->holder();
  std::optional<JobQueue::Entry> next = view_.Next(now);
  if (!next || next->runs_last || next->priority <= holder.priority) {
    again = WallTime(view_.NextTimeAbove(holder.priority));
    return std::nullopt;
  }
  if (MayTake(options_.preemption, *next, holder)) return next;
  again = WallTime(now + options_.poll_interval);
  return std::nullopt;
}

bool Scheduler::CouldStart(const std::string& id) {
  const absl::StatusOr<Job> job = store_.Get(id);
  if (!job.ok()) return false;
  const bool has_files = checks_.HasItsFiles(*job, SpecOf(*job));
  journal_.Write();
  return has_files && checks_.HasDisk() && HasTime(*job);
}

void Scheduler::NoteInQueue(const std::string& id, const std::string& text) {
  journal_.Add(id, text);
  absl::StatusOr<Job> job = store_.Get(id);
  if (!job.ok()) return;
  absl::StatusOr<RunningJob> run = RunningJob::Load(store_, *std::move(job));
  if (!run.ok()) return;
  run->Noted(text, clock_.Now());
  blockers_.Stored(run->Flush(store_));
}

absl::Time Scheduler::ChargeTime() const {
  if (!attempt_->is_measured()) return absl::InfiniteFuture();
  return clock_.Now() + std::max(options_.use_interval - attempt_->flush_age(),
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
  absl::StatusOr<Job> job = store_.Get(id);
  if (!job.ok()) return blockers_.Stored(job.status());
  WorkerListener::Result result;
  result.reason = ExitReason::kTimeLimit;
  result.message =
      DescribeTimeLimit(job->owner, id, job->device_time, TimeLimitOf(*job));
  turn.Wake(id);
  return FailQueued(*std::move(job), result);
}

bool Scheduler::FailQueued(Job job, const WorkerListener::Result& result) {
  const std::string id = job.id;
  const absl::Time now = clock_.Now();
  const NextState next = DecideNext(options_.retry, job, result, now);
  absl::StatusOr<RunningJob> run = RunningJob::Load(store_, std::move(job));
  if (!run.ok()) return blockers_.Stored(run.status());
  run->Ended(result, next, now);
  if (!blockers_.Stored(run->Flush(store_))) return false;
  view_.Remove(id);
  exported_metrics_.JobEnded(id, State::kFailed);
  priors_.Ended(id);
  counts_.Ask();
  journal_.Add(id, result.message);
  return true;
}

void Scheduler::DataChecked(const std::string& id,
                            const absl::StatusOr<DataCheck>& check) {
  absl::StatusOr<DataCheck> judged = check;
  if (check.ok() && !check->fault.empty()) {
    // A path that is away is no fault of the data: the start waits for it.
    const absl::StatusOr<Job> job = store_.Get(id);
    const std::string missing =
        job.ok() ? MissingPath(*job, SpecOf(*job), files_) : "";
    if (!missing.empty()) judged = absl::UnavailableError(missing);
  }
  Turn turn(*this);
  turn.Wake(id);
  turn.AskForTick();
  if (view_.AwaitsCheck(id)) StoreCheck(id, judged);
  view_.EndCheck(id);
}

void Scheduler::StoreCheck(const std::string& id,
                           const absl::StatusOr<DataCheck>& check) {
  absl::StatusOr<Job> job = store_.Get(id);
  if (!job.ok() || job->state != State::kQueued) return;
  if (!check.ok()) {
    return journal_.Add(id, absl::StrCat("its data are read at its start: ",
                                         check.status().message()));
  }
  if (!check->fault.empty()) {
    WorkerListener::Result result;
    result.reason = ExitReason::kRejected;
    result.message = check->fault;
    FailQueued(*std::move(job), result);
    return;
  }
  if (check->warnings.empty()) return;
  absl::StatusOr<RunningJob> run = RunningJob::Load(store_, *std::move(job));
  if (!run.ok()) return;
  for (const std::string& text : check->warnings) {
    run->Warned(text, clock_.Now());
  }
  blockers_.Stored(run->Flush(store_));
}

}  // namespace mpsd::jobs
