// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/attempt.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/report/report.h"
#include "server/jobs/user_limits.h"

namespace mpsd::jobs {

void Journal::Add(std::string id, std::string line) {
  {
    absl::MutexLock lock(&mutex_);
    if (waiting_.size() < kMostWaiting) {
      waiting_.push_back({std::move(id), std::move(line)});
    } else {
      ++dropped_;
    }
  }
  relay_.Ask();
}

void Journal::Write() {
  relay_.Run([this] { WriteWaiting(); });
}

void Journal::WriteWaiting() {
  std::deque<Line> lines;
  int64_t dropped = 0;
  {
    absl::MutexLock lock(&mutex_);
    lines.swap(waiting_);
    dropped = std::exchange(dropped_, 0);
  }
  // Without the lock: a hanging log blocks only this thread, and Add() stays
  // quick for the others.
  for (const Line& line : lines) sink_(line.id, line.text);
  if (dropped > 0) {
    sink_("", absl::StrCat(dropped, " lines are missing here: the log hung"));
  }
}

absl::StatusOr<RunningJob> RunningJob::Load(JobStore& store, Job job) {
  ASSIGN_OR_RETURN(const int64_t sequence, store.LastSequence(job.id));
  ASSIGN_OR_RETURN(const std::vector<Checkpoint> checkpoints,
                   store.Checkpoints(job.id));
  const int64_t last = checkpoints.empty() ? 0 : checkpoints.back().step;
  return RunningJob(std::move(job), sequence, last);
}

RunningJob::RunningJob(Job job, int64_t last_sequence, int64_t last_checkpoint)
    : job_(std::move(job)), last_sequence_(last_sequence) {
  job_.durable_step = std::max(job_.durable_step, last_checkpoint);
}

template <typename Body>
void RunningJob::Add(Body body, absl::Time now) {
  unsaved_.push_back({job_.id, 0, now, std::move(body)});
  dirty_ = true;
}

void RunningJob::Start(const std::string& boot_id, absl::Time now) {
  ++job_.attempt;
  job_.start_time = now;
  job_.not_before.reset();
  job_.message.clear();
  job_.runs_last = false;
  job_.boot_id = boot_id;
  job_.advanced = false;
  job_.fresh = false;
  began_ = false;
  Moved(State::kRunning, "", now);
}

void RunningJob::Progressed(Progress progress, absl::Time now) {
  rate_.Apply(progress);
  if (!std::exchange(began_, true)) {
    const bool advanced = job_.advanced;
    Saved(progress.step - 1);
    job_.advanced = advanced;  // another attempt wrote the checkpoint
  }
  for (const auto& [op, count] : progress.cpu_fallback_ops) {
    if (job_.progress && job_.progress->cpu_fallback_ops.contains(op)) continue;
    Add(Note{"no Metal kernel, runs on the CPU: " + op}, now);
  }
  job_.progress = progress;
  const bool replaces = !unsaved_.empty() &&
                        std::holds_alternative<Progress>(unsaved_.back().body);
  if (replaces) unsaved_.pop_back();
  Add(std::move(progress), now);
}

void RunningJob::Evaluated(const jobs::Evaluated& evaluated, absl::Time now) {
  (evaluated.step == 0 ? job_.eval_loss_before : job_.eval_loss_after) =
      evaluated.eval_loss;
  job_.metrics = evaluated.metrics;
  if (evaluated.best) job_.best_evaluation = evaluated;
  Add(evaluated, now);
}

void RunningJob::Sampled(const report::Sampled& sampled, absl::Time now) {
  Add(sampled, now);
}

void RunningJob::CheckpointWritten(const Checkpoint& checkpoint) {
  Saved(checkpoint.step);
  Add(checkpoint, checkpoint.create_time);
}

void RunningJob::Saved(int64_t step) {
  if (step <= job_.durable_step) return;
  job_.durable_step = step;
  job_.advanced = true;
  job_.failures = job_.interruptions = 0;
}

void RunningJob::Staged(const std::string& stage, absl::Time now) {
  // A checkpoint is an event of its own.
  if (stage.empty() || stage == stage_ || stage == report::kStageSaving) return;
  stage_ = stage;
  Add(Note{stage}, now);
}

void RunningJob::Noted(const std::string& text, absl::Time now) {
  Add(Note{text}, now);
}

void RunningJob::Warned(const std::string& text, absl::Time now) {
  std::vector<std::string>& known = job_.warnings;
  if (known.size() >= kMostWarnings) return;
  std::string kept = text.substr(0, kLongestWarning);
  if (std::find(known.begin(), known.end(), kept) != known.end()) return;
  if (known.size() + 1 == kMostWarnings) {
    kept = "there are more warnings: read the job's log";
  }
  known.push_back(kept);
  Add(Note{std::move(kept), true}, now);
}

void RunningJob::Ended(const WorkerListener::Result& result,
                       const NextState& next, absl::Time now) {
  job_.exit_reason = result.reason;
  job_.failures = next.failures;
  job_.interruptions = next.interruptions;
  job_.runs_last = next.runs_last;
  job_.not_before = next.not_before;
  if (result.reason == ExitReason::kDone) {
    Reached(result.outcome);
  }
  if (next.state == State::kQueued && job_.fresh) ForgetRun();
  Moved(next.state, next.message, now);
}

void RunningJob::Retried(absl::Time now) {
  job_.failures = job_.interruptions = 0;
  job_.runs_last = false;
  job_.not_before.reset();
  job_.end_time.reset();
  Moved(State::kQueued, "queued again", now);
}

void RunningJob::Renewed(absl::Time now) {
  ForgetRun();
  job_.fresh = true;
  Retried(now);
}

void RunningJob::ForgetRun() {
  job_.durable_step = 0;
  job_.advanced = false;
  job_.progress.reset();
  job_.eval_loss_before.reset();
  job_.eval_loss_after.reset();
  job_.train_loss.reset();
  job_.metrics.clear();
  job_.best_evaluation.reset();
  job_.output_path.clear();
  job_.output_kind = OutputKind::kAdapter;
  job_.confusion_matrix.clear();
  job_.warnings.clear();
}

void RunningJob::CountFromCheckpoint() {
  if (!job_.progress || IsStudy(job_.kind)) return;
  const std::optional<absl::Duration> left = TimeLeft(job_);
  Progress& last = *job_.progress;
  if (last.step > 0) {
    last.epoch *=
        static_cast<double>(job_.durable_step) / static_cast<double>(last.step);
  }
  last.step = job_.durable_step;
  if (left) last.eta_seconds = absl::ToDoubleSeconds(*left);
}

void RunningJob::Held(const std::string& why, absl::Time now) {
  job_.held = true;
  job_.hold_reason = why;
  Noted("held: " + why, now);
}

void RunningJob::Released(std::vector<std::string> after, absl::Time now) {
  job_.after = std::move(after);
  job_.held = false;
  job_.hold_reason.clear();
  Noted("released", now);
}

void RunningJob::MovedTo(int64_t place, bool among_all, int32_t priority,
                         const std::string& text, absl::Time now) {
  job_.place = place;
  job_.among_all = among_all;
  job_.priority = priority;
  Noted(text, now);
}

void RunningJob::Reached(const Outcome& outcome) {
  job_.output_path = outcome.output_path;
  job_.output_kind = outcome.output_kind;
  job_.train_loss = outcome.train_loss;
  if (outcome.eval_loss_before)
    job_.eval_loss_before = outcome.eval_loss_before;
  if (outcome.eval_loss_after) job_.eval_loss_after = outcome.eval_loss_after;
  if (!outcome.metrics.empty()) job_.metrics = outcome.metrics;
  job_.confusion_matrix = outcome.confusion_matrix;
}

void RunningJob::Respecified(const std::string& spec_json) {
  job_.spec_json = spec_json;
  dirty_ = true;
}

void RunningJob::Charged(absl::Duration used, std::optional<OwnerUse> use) {
  job_.device_time += used;
  if (use) unsaved_use_ = std::move(use);
  dirty_ = true;
}

void RunningJob::Moved(State state, const std::string& message,
                       absl::Time now) {
  job_.state = state;
  job_.message = base::Shortened(message, limits::kMessageBytes);
  // A request that outlived its attempt would cancel the next one after a
  // Retry.
  if (state != State::kRunning) job_.cancel_requested = false;
  if (state == State::kQueued) CountFromCheckpoint();
  if (IsFinal(state)) {
    job_.end_time = now;
    job_.held = false;
    job_.hold_reason.clear();
  }
  Add(StateChanged{state, job_.message}, now);
}

absl::Status RunningJob::Flush(JobStore& store) {
  if (!dirty_) return absl::OkStatus();
  // Events get their numbers only now, because Progressed may replace a pending
  // one. A failed write gives the same numbers again.
  int64_t sequence = last_sequence_;
  for (Event& event : unsaved_) event.sequence = ++sequence;
  RETURN_IF_ERROR(
      store.Update(job_, unsaved_, unsaved_use_ ? &*unsaved_use_ : nullptr));
  last_sequence_ = sequence;
  unsaved_.clear();
  unsaved_use_.reset();
  dirty_ = false;
  return absl::OkStatus();
}

namespace {

// The longest step duration that a worker's report is believed.
constexpr absl::Duration kLongestStep = absl::Hours(8);

}  // namespace

absl::StatusOr<std::unique_ptr<Attempt>> Attempt::Start(
    RunningJob run, Options options, const Dependencies& dependencies) {
  run.Start(options.boot_id, dependencies.clock.Now());
  // The row is RUNNING before a process exists, so that Recover counts every
  // kill from here on: a job that takes the machine down with it does not start
  // forever.
  RETURN_IF_ERROR(run.Flush(dependencies.store));
  return std::unique_ptr<Attempt>(
      new Attempt(std::move(run), std::move(options), dependencies));
}

Attempt::Attempt(RunningJob run, Options options,
                 const Dependencies& dependencies)
    : options_(std::move(options)),
      dependencies_(dependencies),
      run_(std::move(run)),
      flushed_at_(dependencies_.clock.Monotonic()),
      meter_(options_.awake_time()) {}

void Attempt::AttachWorker(std::unique_ptr<Worker> worker) {
  base::Check(!has_worker() && phase_ != Phase::kWorking,
              "AttachWorker is called once");
  worker_ = std::move(worker);
  // The worker's thread may have reported the end before Launch returned.
  if (ended()) return;
  phase_ = Phase::kWorking;
  if (job().cancel_requested) {
    worker_->Cancel(options_.stop_grace);
  } else if (runs_again_) {
    worker_->Preempt(StepGrace());
  }
  KeepAwake();
}

void Attempt::DeviceOpened(const std::string& device) {
  base::Check(!ended(), "DeviceOpened comes before End");
  device_ = device;
}

void Attempt::Progressed(const Progress& progress) {
  base::Check(!ended(), "Progressed comes before End");
  device_ = progress.device;
  // A worker that trains does not hold, even if it did not report so.
  meter_.Resume(options_.awake_time());
  run_.Progressed(progress, dependencies_.clock.Now());
}

void Attempt::Evaluated(const jobs::Evaluated& evaluated) {
  base::Check(!ended(), "Evaluated comes before End");
  run_.Evaluated(evaluated, dependencies_.clock.Now());
}

void Attempt::Sampled(const report::Sampled& sampled) {
  base::Check(!ended(), "Sampled comes before End");
  run_.Sampled(sampled, dependencies_.clock.Now());
}

void Attempt::CheckpointWritten(const Checkpoint& checkpoint) {
  base::Check(!ended(), "CheckpointWritten comes before End");
  unstored_.push_back(checkpoint);
  run_.CheckpointWritten(checkpoint);
}

void Attempt::Staged(const std::string& stage) {
  base::Check(!ended(), "Staged comes before End");
  run_.Staged(stage, dependencies_.clock.Now());
}

void Attempt::Warned(const std::string& text) {
  base::Check(!ended(), "Warned comes before End");
  run_.Warned(text, dependencies_.clock.Now());
}

void Attempt::Held() {
  base::Check(is_paused(), "Held comes while the attempt is paused");
  pause_->held = true;
  meter_.Stop(options_.awake_time());
  awake_.reset();
}

void Attempt::Resumed() {
  base::Check(!ended(), "Resumed comes before End");
  if (pause_) pause_->held = false;
  meter_.Resume(options_.awake_time());
}

absl::Status Attempt::Cancel(bool now) {
  base::Check(!ended(), "Cancel comes before End");
  const bool first = !job().cancel_requested;
  if (first) run_.CancelRequested();
  if (first || now) {
    Note(now                   ? "cancelling at once"
         : IsStudy(job().kind) ? "cancelling"
                               : "cancelling; saving a checkpoint");
  }
  // Store the cancel first: a daemon killed between these two lines would
  // otherwise run a job again whose worker was asked to stop.
  const absl::Status stored = Store();
  if (has_worker() && (first || now)) {
    worker_->Cancel(now ? absl::ZeroDuration() : StepGrace());
  }
  return stored;
}

absl::Status Attempt::RunAgain(bool from_scratch) {
  base::Check(!ended() && !job().cancel_requested,
              "RunAgain comes before any end");
  const bool was_ending = is_ending();
  const bool first = !std::exchange(runs_again_, true);
  if (from_scratch && !job().fresh) {
    run_.RenewLater();
    Note("requeue from scratch requested; stopping");
  } else if (first) {
    Note("requeue requested; saving a checkpoint");
  }
  const absl::Status stored = Store();
  if (has_worker() && !was_ending) worker_->Preempt(StepGrace());
  return stored;
}

void Attempt::PreemptForDrain() {
  if (!has_worker() || ended() || drained_) return;
  drained_ = true;
  dependencies_.journal.Add(id(), "mpsd stops; saving a checkpoint");
  worker_->Preempt(options_.stop_grace);
}

bool Attempt::is_ending() const {
  return ended() || drained_ || runs_again_ || job().cancel_requested ||
         !returned_for_.empty() || !gives_way_to_.empty() || time_limit_;
}

bool Attempt::may_be_stopped() const {
  return has_worker() && !is_ending() && !is_paused();
}

void Attempt::GiveWay(const std::string& id, int32_t priority) {
  base::Check(may_be_stopped(),
              "GiveWay comes while the worker may be stopped");
  gives_way_to_ =
      absl::StrCat("gives way to job ", id, " of priority ", priority);
  worker_->Preempt(StepGrace());
  Note(absl::StrCat(gives_way_to_, "; saving a checkpoint"));
}

void Attempt::StopForTime(absl::Duration limit) {
  base::Check(has_worker() && !is_ending(), "StopForTime comes before any end");
  time_limit_ = limit;
  worker_->Preempt(StepGrace());
  Note(absl::StrCat("held the device for ", RoundTime(limit),
                    ", as long as it may; saving a checkpoint"));
}

absl::Duration Attempt::StepGrace() const {
  // The worker stops between two steps. Killing it within a step would throw
  // away what the step has computed, and nothing is urgent.
  const absl::Duration step = job().progress
                                  ? absl::Seconds(job().progress->seconds)
                                  : absl::ZeroDuration();
  return options_.stop_grace +
         HangLimit::kFactor *
             std::clamp(step, absl::ZeroDuration(), kLongestStep);
}

bool Attempt::ApplyPauseReasons(const PauseGate& gate) {
  // A worker that was asked to end is not also asked to hold.
  if (!has_worker() || is_ending()) return false;
  const PauseReasons& reasons = gate.reasons();
  if (!pause_) {
    if (reasons.empty()) return false;
    AskToHold(reasons);
  } else if (reasons.empty()) {
    AskToResume();
  } else if (dependencies_.clock.Monotonic() - pause_->since >=
             HoldLimit(gate.policy(), reasons)) {
    AskForMemory(reasons);
  } else {
    return false;
  }
  return true;
}

void Attempt::AskToHold(const PauseReasons& reasons) {
  pause_ =
      PauseState{dependencies_.clock.Monotonic(), dependencies_.clock.Now()};
  worker_->Pause();
  Note(absl::StrCat("paused: ", Describe(reasons)));
}

void Attempt::AskToResume() {
  const absl::Duration length = absl::Floor(
      dependencies_.clock.Monotonic() - pause_->since, absl::Seconds(1));
  pause_.reset();
  worker_->Resume();
  KeepAwake();
  Note(absl::StrCat("resumed after ", absl::FormatDuration(length)));
}

void Attempt::AskForMemory(const PauseReasons& reasons) {
  returned_for_ = reasons;
  worker_->Preempt(options_.stop_grace);
  Note("long pause; saving a checkpoint to free the memory");
}

void Attempt::Note(const std::string& text) {
  run_.Noted(text, dependencies_.clock.Now());
  dependencies_.journal.Add(id(), text);
}

void Attempt::KeepAwake() {
  if (dependencies_.host == nullptr || pause_) return;
  awake_ =
      dependencies_.host->KeepAwake(absl::StrCat("mpsd trains job ", id()));
}

Pause Attempt::ShownPause(const PauseReasons& reasons) const {
  if (!pause_) return {};
  return {reasons, pause_->held, pause_->since_time};
}

Attempt::Ending Attempt::DecideEnding(const WorkerListener::Result& result,
                                      const RetryPolicy& policy) const {
  base::Check(!ended(), "DecideEnding comes before End");
  Ending ending{result, {}};
  ExitReason& reason = ending.result.reason;
  if (reason == ExitReason::kPreempted && !drained_ && time_limit_) {
    reason = ExitReason::kTimeLimit;
    ending.result.message = absl::StrCat(
        DescribeTimeLimit(job().owner, id(), DeviceTime(), *time_limit_), " (",
        result.message, ")");
  }
  const bool for_memory = reason == ExitReason::kPreempted && !drained_ &&
                          returned_for_.contains(PauseReason::kMemoryPressure);
  if (for_memory) reason = ExitReason::kInterrupted;
  ending.next =
      DecideNext(policy, job(), ending.result, dependencies_.clock.Now());
  if (reason == ExitReason::kPreempted && !drained_ && !gives_way_to_.empty()) {
    ending.next.message = absl::StrCat(
        gives_way_to_, ", resumes by itself: ", ending.next.message);
  }
  if (reason == ExitReason::kPreempted && runs_again_ && !job().fresh) {
    ending.next.failures = ending.next.interruptions = 0;
    ending.next.message =
        absl::StrCat("runs again, as requested: ", ending.next.message);
  }
  if (ending.next.state != State::kQueued || returned_for_.empty()) {
    return ending;
  }
  ending.next.message =
      absl::StrCat("paused (", Describe(returned_for_),
                   "), resumes by itself: ", ending.next.message);
  // Another job may need less memory than this one.
  if (for_memory) ending.next.runs_last = true;
  return ending;
}

void Attempt::End(const Ending& ending) {
  base::Check(!ended(), "End is called once");
  run_.Ended(ending.result, ending.next, dependencies_.clock.Now());
  phase_ = Phase::kEnded;
  meter_.Stop(options_.awake_time());
  pause_.reset();
  awake_.reset();
  dependencies_.journal.Add(
      id(), absl::StrCat("attempt ", job().attempt,
                         " ended: ", std::string(Name(ending.result.reason)),
                         ", the job is ", std::string(Name(ending.next.state)),
                         ending.next.message.empty() ? "" : ": ",
                         ending.next.message));
}

absl::Duration Attempt::TakeUse() {
  const absl::Duration measured = meter_.Measured(options_.awake_time());
  return measured - std::exchange(taken_, measured);
}

void Attempt::Charge(absl::Duration used, std::optional<OwnerUse> use) {
  run_.Charged(used, std::move(use));
}

absl::Duration Attempt::DeviceTime() const {
  return job().device_time + meter_.Measured(options_.awake_time()) - taken_;
}

Holder Attempt::holder() const {
  Holder holder{job().priority, run_.has_stepped(),
                meter_.Measured(options_.awake_time()), std::nullopt};
  if (holder.has_stepped) {
    holder.left = absl::Seconds(job().progress->eta_seconds);
  }
  return holder;
}

absl::Status Attempt::Flush() {
  const absl::Status stored = Store();
  flushed_at_ = dependencies_.clock.Monotonic();
  return stored;
}

absl::Status Attempt::Store() {
  // Checkpoints go before the row. A kill between the two leaves a row that is
  // older than its checkpoints, which RunningJob repairs when it loads the row;
  // the other way round a kill would leave an unlisted checkpoint.
  absl::Status added;
  while (added.ok() && !unstored_.empty()) {
    added = dependencies_.store.AddCheckpoint(id(), unstored_.front());
    if (added.ok()) unstored_.pop_front();
  }
  const absl::Status stored = run_.Flush(dependencies_.store);
  if (stored.ok() && !added.ok()) {
    // The store accepted the row, so the checkpoint is at fault: drop it
    // instead of trying it forever.
    dependencies_.journal.Add(id(),
                              absl::StrCat("checkpoint: ", added.message()));
    unstored_.pop_front();
  }
  return stored;
}

absl::Duration Attempt::flush_age() const {
  return dependencies_.clock.Monotonic() - flushed_at_;
}

}  // namespace mpsd::jobs
