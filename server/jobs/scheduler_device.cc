// SPDX-License-Identifier: Apache-2.0
// The device's side of the Scheduler: Tick, which reads the host, frees the
// device and starts the next attempt, and the reports of its worker. The host
// is read, the disk checked and a worker launched without the lock.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "server/jobs/exported_metrics.h"
#include "server/jobs/prior_jobs.h"
#include "server/jobs/scheduler.h"

namespace mpsd::jobs {
namespace {

// A job whose path is missing is checked again at least this often.
constexpr absl::Duration kPathInterval = absl::Seconds(30);

}  // namespace

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
  if (dependencies_.host == nullptr) return absl::InfiniteFuture();
  const absl::Duration now = dependencies_.clock.Monotonic();
  if (host_read_at_ && now - *host_read_at_ < options_.host_interval) {
    return NextHostReadTime();
  }
  host_read_at_ = now;
  const host::Reading reading = dependencies_.host->Read();
  dependencies_.exported_metrics.HostRead(reading);
  Turn turn(*this);
  view_.Change([&](ManagerInfo& info) { info.host = reading; });
  LogUnobservablePolicies(reading);
  gate_.Observe(reading, dependencies_.clock.Now(), now);
  dependencies_.exported_metrics.Paused(gate_.reasons());
  if (ApplyPauseReasons()) turn.Wake(attempt_->id());
  return NextHostReadTime();
}

absl::Time Scheduler::NextHostReadTime() const {
  base::Check(host_read_at_.has_value(), "the machine was looked at");
  return dependencies_.clock.Now() + options_.host_interval -
         (dependencies_.clock.Monotonic() - *host_read_at_);
}

void Scheduler::LogUnobservablePolicies(const host::Reading& reading) {
  PauseReasons unobservable = gate_.Unobservable(reading);
  if (unobservable == logged_unobservable_) return;
  if (!unobservable.empty()) {
    journal_.Add(
        "",
        absl::StrCat("asked to pause for what this machine does not report: ",
                     Describe(unobservable)));
  }
  logged_unobservable_ = std::move(unobservable);
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

absl::Time Scheduler::TendAttempt() {
  Turn turn(*this);
  const absl::Time now = dependencies_.clock.Now();
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

absl::Time Scheduler::WallTime(absl::Duration time) const {
  if (time == absl::InfiniteDuration()) return absl::InfiniteFuture();
  return dependencies_.clock.Now() + (time - dependencies_.clock.Monotonic());
}

absl::Time Scheduler::StartNext() {
  const absl::Duration now = dependencies_.clock.Monotonic();
  {
    absl::MutexLock lock(&mutex_);
    // The next reading of the machine, for which Tick() returns the time,
    // brings the next attempt.
    if (draining_ || !gate_.reasons().empty()) return absl::InfiniteFuture();
    if (machine_faults_ > 0 && !view_.empty() && now < machine_wait_) {
      return WallTime(machine_wait_);
    }
  }
  if (IsDrained()) {
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
    SetStartBlocker(reason, "");
  }
  journal_.Write();
}

Scheduler::StartResult Scheduler::TryStart(const JobQueue::Entry& entry) {
  SetStartBlocker(HoldReason::kMachine, "");
  const absl::StatusOr<Job> job = dependencies_.store.Get(entry.id);
  if (absl::IsNotFound(job.status()) || absl::IsDataLoss(job.status())) {
    view_.Remove(entry.id);
    counts_.Ask();
    if (absl::IsDataLoss(job.status())) GiveUpRow(entry.id, job.status());
    journal_.Write();
    PublishCounts();
    hub_.Wake(entry.id);
    return StartResult::kPassedOver;
  }
  bool ready = job.ok() ? IsReady() : Stored(job.status());
  spec::TrainSpec spec = ready ? SpecOf(*job) : spec::TrainSpec();
  if (ready && !HasTime(*job)) {
    return FailForTime(entry.id) ? StartResult::kPassedOver
                                 : StartResult::kHeld;
  }
  if (ready && StillAwaitsPriors(*job)) return StartResult::kPassedOver;
  std::string spec_json;
  if (ready &&
      (!TakeResults(*job, spec, spec_json) || !HasItsFiles(*job, spec) ||
       (job->fresh && !BeginsFromScratch(entry.id)))) {
    journal_.Write();
    return StartResult::kPassedOver;
  }
  LaunchRequest request;
  if (ready) {
    Turn turn(*this);
    // Drain, Cancel or Hold may have come while files were checked without the
    // lock.
    if (draining_ || IsDrained()) return StartResult::kHeld;
    const std::optional<JobQueue::Entry> now = view_.Find(entry.id);
    if (!now || now->WaitsForSomebody()) return StartResult::kPassedOver;
    ready = Start(entry, spec, spec_json, job->fresh).ok();
    if (ready) request = RequestFor(attempt_->job(), spec);
  }
  journal_.Write();
  if (!ready) return StartResult::kHeld;
  ForgetUses();
  Launch(request);
  hub_.Wake(entry.id);
  return StartResult::kStarted;
}

bool Scheduler::IsReady() {
  const absl::Status ready = dependencies_.launcher.Ready();
  SetStartBlocker(HoldReason::kDevice, std::string(ready.message()));
  const std::string full =
      FullDisk(options_.min_free_bytes, dependencies_.files);
  SetStartBlocker(HoldReason::kDisk, full);
  return ready.ok() && full.empty();
}

bool Scheduler::HasItsFiles(const Job& job, const spec::TrainSpec& spec) {
  std::string lacks = MissingPath(job, spec, dependencies_.files);
  if (lacks.empty()) {
    lacks = NoRoomFor(job, options_.min_free_bytes, dependencies_.files);
  }
  if (lacks.empty()) return true;
  HoldForPath(job, lacks);
  return false;
}

void Scheduler::HoldForPath(const Job& job, const std::string& lacks) {
  if (view_.HoldOf(job.id) != lacks) {
    journal_.Add(job.id, absl::StrCat("waits: ", lacks));
  }
  view_.HoldJob(job.id, lacks,
                dependencies_.clock.Monotonic() +
                    std::min(kPathInterval, options_.retry.max_backoff));
}

absl::Status Scheduler::Start(const JobQueue::Entry& entry,
                              const spec::TrainSpec& spec,
                              const std::string& spec_json, bool cleared) {
  // Reads the row again, now with the lock: a Cancel and a Retry may have
  // changed the row since TryStart read it.
  ASSIGN_OR_RETURN(Job job, dependencies_.store.Get(entry.id));
  if (job.fresh && !cleared) {
    return absl::AbortedError("queued again from scratch meanwhile");
  }
  TakeTurn(entry.id, job);
  ASSIGN_OR_RETURN(RunningJob run,
                   RunningJob::Load(dependencies_.store, std::move(job)));
  if (!spec_json.empty()) run.Respecified(spec_json);
  absl::StatusOr<std::unique_ptr<Attempt>> attempt = Attempt::Start(
      std::move(run),
      {options_.boot_id, options_.stop_grace, options_.awake_time},
      {dependencies_.store, journal_, dependencies_.clock, dependencies_.host});
  if (!Stored(attempt.status())) return attempt.status();

  view_.Start(entry.id);
  base::Check(attempt_ == nullptr, "the device holds one attempt");
  attempt_ = *std::move(attempt);
  dependencies_.exported_metrics.JobStarted(
      DescribeStart(attempt_->job(), spec, entry.since));
  counts_.Ask();
  journal_.Add(entry.id,
               absl::StrCat("attempt ", attempt_->job().attempt, " starts"));
  return absl::OkStatus();
}

LaunchRequest Scheduler::RequestFor(const Job& job,
                                    const spec::TrainSpec& spec) const {
  LaunchRequest request;
  request.job_id = job.id;
  request.kind = job.kind;
  request.study = job.study_json;
  request.spec_path = dependencies_.files.SpecPath(job.id);
  request.output_dir = dependencies_.files.OutputDir(job.id);
  request.log_path = dependencies_.files.LogPath(job.id);
  request.hang_timeout = options_.hang_timeout;
  if (job.progress) {
    request.slowest_step = absl::Seconds(job.progress->seconds);
  }
  request.allow_cpu_fallback = spec.allow_cpu_fallback;
  request.results_read = ResultsReadBy(spec, dependencies_.files);
  return request;
}

void Scheduler::Launch(const LaunchRequest& request) {
  absl::StatusOr<std::unique_ptr<Worker>> worker =
      dependencies_.launcher.Launch(request, *this);
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
  view_.Change([&](ManagerInfo& info) {
    info.worker_version = identity.worker_version;
    info.torch_version = identity.torch_version;
  });
  journal_.Add(ReportingAttempt().id(),
               absl::StrCat("worker ", identity.worker_version, ", torch ",
                            identity.torch_version, ", pid ", identity.pid));
}

void Scheduler::OnDevice(const std::string& device) {
  Turn turn(*this);
  view_.Change([&](ManagerInfo& info) { info.device = device; });
  ReportingAttempt().DeviceOpened(device);
  dependencies_.exported_metrics.DeviceOpened(attempt_->id(), device);
}

void Scheduler::OnProgress(const Progress& progress) {
  Turn turn(*this);
  Attempt& attempt = ReportingAttempt();
  view_.Change([&](ManagerInfo& info) {
    info.device = progress.device;
    info.memory = progress.memory;
  });
  attempt.Progressed(progress);
  dependencies_.exported_metrics.StepFinished(attempt.id(),
                                              *attempt.job().progress);
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
  dependencies_.exported_metrics.Evaluated(attempt.id(), attempt.device(),
                                           evaluated);
  FlushAttempt();
  turn.Wake(attempt.id());
}

void Scheduler::OnCheckpoint(const report::Checkpointed& checkpoint) {
  Turn turn(*this);
  Attempt& attempt = ReportingAttempt();
  attempt.CheckpointWritten({checkpoint, dependencies_.clock.Now()});
  machine_faults_ = 0;
  dependencies_.exported_metrics.CheckpointWritten(
      attempt.id(), attempt.device(), checkpoint.seconds);
  FlushAttempt();
  turn.Wake(attempt.id());
}

void Scheduler::OnHeartbeat(const std::string& stage, double fraction) {
  static_cast<void>(fraction);
  if (stage.empty()) return;  // only counts for the hang limit
  Turn turn(*this);
  ReportingAttempt().Staged(stage);
  dependencies_.exported_metrics.StageBegan(stage);
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
  dependencies_.exported_metrics.WorkerHalts(true);
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
  dependencies_.exported_metrics.WorkerHalts(false);
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
      JudgeEnd(result, job, options_.min_free_bytes, dependencies_.files);
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
  dependencies_.exported_metrics.WorkerExited(reason);
  const Job& job = attempt_->job();
  if (returns) {
    dependencies_.exported_metrics.JobReturned(reason);
    // The entry may come before the row is stored: no job starts until Reap has
    // stored the end and freed the device.
    Enqueue(job, dependencies_.clock.Now());
    if (!verdict.job_lacks.empty()) {
      view_.HoldJob(
          job.id, verdict.job_lacks,
          dependencies_.clock.Monotonic() + options_.retry.first_backoff);
    }
  } else {
    dependencies_.exported_metrics.JobEnded(job.id, job.state);
  }
  FlushAttempt();
  counts_.Ask();
}

void Scheduler::BlameMachine(const Verdict& verdict, const std::string& text,
                             NextState& next) {
  if (!verdict.job_lacks.empty()) return;  // this job waits, the queue does not
  const absl::Duration wait = Backoff(options_.retry, ++machine_faults_);
  machine_wait_ = dependencies_.clock.Monotonic() + wait;
  next.message =
      absl::StrCat("this machine's fault, not counted, looked at again in ",
                   absl::FormatDuration(wait), ": ", text);
  // If nothing explains the fault, let other jobs run first: if they meet it
  // too, the machine is at fault, not this job.
  next.behind = verdict.disk_lacks.empty() && verdict.launched;
  SetStartBlocker(HoldReason::kMachine,
                  absl::StrCat("job ", attempt_->id(), " met ", text));
}

bool Scheduler::FlushAttempt() {
  if (!attempt_->dirty()) return true;
  ChargeAttempt();
  if (!Stored(attempt_->Flush())) return false;
  if (IsFinal(attempt_->job().state)) waiting_.Changed(attempt_->id());
  return true;
}

}  // namespace mpsd::jobs
