// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/running_job.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/limits.h"
#include "core/base/printable.h"
#include "core/report/stage_names.h"

namespace mpsd::jobs {

absl::StatusOr<RunningJob> RunningJob::Load(JobStore& store, Job job) {
  const absl::StatusOr<int64_t> sequence = store.LastSequence(job.id);
  if (!sequence.ok()) return sequence.status();
  const absl::StatusOr<std::vector<Checkpoint>> checkpoints =
      store.Checkpoints(job.id);
  if (!checkpoints.ok()) return checkpoints.status();
  const int64_t last = checkpoints->empty() ? 0 : checkpoints->back().step;
  return RunningJob(std::move(job), *sequence, last);
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
  job_.behind = false;
  job_.boot_id = boot_id;
  job_.advanced = false;
  job_.fresh = false;
  began_ = false;
  Moved(State::kRunning, "", now);
}

void RunningJob::CancelRequested(absl::Time now) {
  if (job_.cancel_requested) return;
  job_.cancel_requested = true;
  Add(Note{"cancel requested"}, now);
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
  job_.behind = next.behind;
  job_.not_before = next.not_before;
  if (result.reason == ExitReason::kDone) {
    Reached(result.outcome);
  }
  if (next.state == State::kQueued && job_.fresh) ForgetRun();
  Moved(next.state, next.message, now);
}

void RunningJob::Retried(absl::Time now) {
  job_.failures = job_.interruptions = 0;
  job_.behind = false;
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
  if (IsFinal(state)) {
    job_.end_time = now;
    job_.held = false;
    job_.hold_reason.clear();
  }
  Add(StateChanged{state, job_.message}, now);
}

absl::Status RunningJob::Flush(JobStore& store) {
  if (!dirty_) return absl::OkStatus();
  // Events get their numbers only now, because Progressed may replace one that
  // waits. A write that failed gives the same numbers again.
  int64_t sequence = last_sequence_;
  for (Event& event : unsaved_) event.sequence = ++sequence;
  absl::Status status =
      store.Update(job_, unsaved_, unsaved_use_ ? &*unsaved_use_ : nullptr);
  if (!status.ok()) return status;
  last_sequence_ = sequence;
  unsaved_.clear();
  unsaved_use_.reset();
  dirty_ = false;
  return absl::OkStatus();
}

}  // namespace mpsd::jobs
