// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/attempt.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "server/jobs/hang_limit.h"
#include "server/jobs/queue_words.h"
#include "server/jobs/user_limits.h"

namespace mpsd::jobs {
namespace {

// The longest step that a worker's report is believed.
constexpr absl::Duration kLongestStep = absl::Hours(8);

}  // namespace

absl::StatusOr<std::unique_ptr<Attempt>> Attempt::Start(
    RunningJob run, Options options, const Dependencies& dependencies) {
  run.Start(options.boot_id, dependencies.clock.Now());
  // The row is RUNNING before a process exists, so that Recover counts every
  // kill from here on: a job that takes the machine down with it does not start
  // for ever.
  absl::Status stored = run.Flush(dependencies.store);
  if (!stored.ok()) return stored;
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
  // A worker that trains does not hold, whatever it forgot to say.
  meter_.GoOn(options_.awake_time());
  run_.Progressed(progress, dependencies_.clock.Now());
}

void Attempt::Evaluated(const jobs::Evaluated& evaluated) {
  base::Check(!ended(), "Evaluated comes before End");
  run_.Evaluated(evaluated, dependencies_.clock.Now());
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
  meter_.GoOn(options_.awake_time());
}

absl::Status Attempt::Cancel(bool now) {
  base::Check(!ended(), "Cancel comes before End");
  const bool first = !job().cancel_requested;
  if (first) {
    run_.CancelRequested(dependencies_.clock.Now());
    dependencies_.journal.Add(id(), "cancel requested");
  }
  // Store the cancel first: a daemon that is killed between these two lines
  // would otherwise run a job again whose worker was told to give up.
  const absl::Status stored = Store();
  if (has_worker() && (first || now)) {
    worker_->Cancel(now ? absl::ZeroDuration() : options_.stop_grace);
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
    Note("is to run again from scratch: asked to stop");
  } else if (first) {
    Note("is to run again: asked for a checkpoint");
  }
  const absl::Status stored = Store();
  if (has_worker() && !was_ending) worker_->Preempt(StepGrace());
  return stored;
}

void Attempt::PreemptForDrain() {
  if (!has_worker() || ended() || drained_ || job().cancel_requested) return;
  drained_ = true;
  dependencies_.journal.Add(id(), "mpsd stops: asked for a checkpoint");
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
  Note(absl::StrCat(gives_way_to_, ": asked for a checkpoint"));
}

void Attempt::StopForTime(absl::Duration limit) {
  base::Check(has_worker() && !is_ending(), "StopForTime comes before any end");
  time_limit_ = limit;
  worker_->Preempt(StepGrace());
  Note(absl::StrCat("held the device for ", RoundTime(limit),
                    ", as long as it may: asked for a checkpoint"));
}

absl::Duration Attempt::StepGrace() const {
  // The worker stops between two steps. To kill it within a step would throw
  // away what the step has computed, and nothing else hurries.
  const absl::Duration step = job().progress
                                  ? absl::Seconds(job().progress->seconds)
                                  : absl::ZeroDuration();
  return options_.stop_grace +
         HangLimit::kFactor *
             std::clamp(step, absl::ZeroDuration(), kLongestStep);
}

bool Attempt::ApplyPauseReasons(const PauseGate& gate) {
  // A worker that was asked to end is not asked to hold as well.
  if (!has_worker() || is_ending()) return false;
  const PauseReasons& reasons = gate.reasons();
  if (!pause_) {
    if (reasons.empty()) return false;
    AskToHold(reasons);
  } else if (reasons.empty()) {
    AskToGoOn();
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

void Attempt::AskToGoOn() {
  const absl::Duration length = absl::Floor(
      dependencies_.clock.Monotonic() - pause_->since, absl::Seconds(1));
  pause_.reset();
  worker_->Resume();
  KeepAwake();
  Note(absl::StrCat("goes on after a pause of ", absl::FormatDuration(length)));
}

void Attempt::AskForMemory(const PauseReasons& reasons) {
  returned_for_ = reasons;
  worker_->Preempt(options_.stop_grace);
  Note("a long pause: asked for a checkpoint, to give the memory back");
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
        gives_way_to_, ", goes on by itself: ", ending.next.message);
  }
  if (reason == ExitReason::kPreempted && runs_again_ && !job().fresh) {
    ending.next.failures = ending.next.interruptions = 0;
    ending.next.message =
        absl::StrCat("runs again, as was asked: ", ending.next.message);
  }
  if (ending.next.state != State::kQueued || returned_for_.empty()) {
    return ending;
  }
  ending.next.message =
      absl::StrCat("paused (", Describe(returned_for_),
                   "), goes on by itself: ", ending.next.message);
  // Another job may need less memory than this one.
  if (for_memory) ending.next.behind = true;
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
  // behind its checkpoints, which RunningJob mends when it loads the row; the
  // other way round a kill would leave a checkpoint that nobody lists.
  absl::Status added;
  while (added.ok() && !unstored_.empty()) {
    added = dependencies_.store.AddCheckpoint(id(), unstored_.front());
    if (added.ok()) unstored_.pop_front();
  }
  const absl::Status stored = run_.Flush(dependencies_.store);
  if (stored.ok() && !added.ok()) {
    // The store accepted the row, so the checkpoint is at fault: drop it
    // instead of trying it for ever.
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
