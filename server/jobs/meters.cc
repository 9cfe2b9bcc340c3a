// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/meters.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "core/base/check.h"
#include "core/spec/train_spec_fields.h"

namespace mpsd::jobs {

void DeviceMeter::Stop(absl::Duration now) {
  before_ = Measured(now);
  since_.reset();
}

void DeviceMeter::Resume(absl::Duration now) {
  if (!since_) since_ = now;
}

absl::Duration DeviceMeter::Measured(absl::Duration now) const {
  if (!since_) return before_;
  return before_ + std::max(now - *since_, absl::ZeroDuration());
}

namespace {

// A worker's seconds, at most `most`; 0 if they are invalid.
absl::Duration Believed(double seconds, absl::Duration most) {
  if (!std::isfinite(seconds) || seconds <= 0) return absl::ZeroDuration();
  return std::min(absl::Seconds(seconds), most);
}

}  // namespace

void PhaseClock::Staged(std::string_view stage, absl::Duration now) {
  if (stage == report::kStageTraining) {
    has_begun_ = true;
    Enter(Phase::kTrain, now);
  } else if (stage == report::kStageEvaluating ||
             stage == report::kStagePredicting) {
    Enter(Phase::kEvaluate, now);
  } else if (stage == report::kStageSaving) {
    Enter(Phase::kSave, now);
  } else if (!has_begun_) {
    Enter(Phase::kLoad, now);
  }
}

void PhaseClock::Halted(absl::Duration now) {
  if (phase_ == Phase::kPaused) return;
  halted_phase_ = phase_;
  Enter(Phase::kPaused, now);
}

void PhaseClock::Resumed(absl::Duration now) {
  if (phase_ == Phase::kPaused) Enter(halted_phase_, now);
}

void PhaseClock::Stepped(const report::Progress& progress, absl::Duration now) {
  // Reports that arrive together share the time since the one before them: the
  // part of a wait that does not fit is kept for the next.
  const absl::Duration step = Believed(progress.seconds, now - started_);
  const absl::Duration wait =
      Believed(progress.data_wait_seconds.value_or(0), step);
  untaken_wait_ += wait;
  untaken_wait_ -= Take(Phase::kDataWait, untaken_wait_, now);
  Take(Phase::kTrain, step - wait, now);
  has_begun_ = true;
  Enter(Phase::kTrain, now);
}

void PhaseClock::Evaluated(double seconds, absl::Duration now) {
  Take(Phase::kEvaluate, Believed(seconds, now - since_), now);
  has_begun_ = true;
  Enter(Phase::kTrain, now);
}

void PhaseClock::Saved(double seconds, absl::Duration now) {
  Take(Phase::kSave, Believed(seconds, now - since_), now);
  Enter(Phase::kTrain, now);
}

std::map<Phase, absl::Duration> PhaseClock::Spent(absl::Duration now) const {
  std::map<Phase, absl::Duration> spent = spent_;
  spent[phase_] += now - since_;
  return spent;
}

absl::Duration PhaseClock::Take(Phase phase, absl::Duration time,
                                absl::Duration now) {
  const absl::Duration taken = std::min(time, now - since_);
  spent_[phase] += taken;
  since_ += taken;
  return taken;
}

void PhaseClock::Enter(Phase next, absl::Duration now) {
  spent_[phase_] += now - since_;
  since_ = now;
  phase_ = next;
}

namespace {

void FillShares(Progress& progress) {
  if (progress.padded_tokens.value_or(0) > 0) {
    progress.padding_ratio =
        1 - static_cast<double>(progress.tokens) /
                static_cast<double>(*progress.padded_tokens);
  }
  if (progress.data_wait_seconds && progress.seconds > 0) {
    progress.data_wait_ratio = *progress.data_wait_seconds / progress.seconds;
  }
}

}  // namespace

void StepRate::Apply(Progress& progress) {
  FillShares(progress);
  const double weight = started_ ? kWeight : 1;
  started_ = true;
  tokens_ += weight * (progress.tokens - tokens_);
  seconds_ += weight * (progress.seconds - seconds_);
  progress.tokens_per_second = seconds_ > 0 ? tokens_ / seconds_ : 0;
  const int64_t left =
      std::max<int64_t>(progress.total_steps - progress.step, 0);
  progress.eta_seconds = left * seconds_;
}

std::optional<absl::Duration> TimeLeft(const Job& job) {
  if (!job.progress) return std::nullopt;
  const Progress& last = *job.progress;
  const int64_t left = last.total_steps - last.step;
  const double step_seconds =
      left > 0 ? last.eta_seconds / static_cast<double>(left) : last.seconds;
  const int64_t steps =
      std::max<int64_t>(last.total_steps - job.durable_step, 0);
  const double seconds = static_cast<double>(steps) * step_seconds;
  if (!std::isfinite(seconds)) return std::nullopt;
  return absl::Seconds(std::max(seconds, 0.0));
}

namespace {

std::string ModelName(const spec::TrainSpec& spec) {
  if (!spec.model_id.empty()) return spec.model_id;
  const std::filesystem::path folder =
      std::filesystem::path(spec.model).lexically_normal();
  return (folder.has_filename() ? folder : folder.parent_path())
      .filename()
      .string();
}

}  // namespace

StartedJob DescribeStart(const Job& job, const spec::TrainSpec& spec,
                         absl::Time since) {
  base::Check(job.start_time.has_value(), "the job has started");
  return {
      job.id,          job.name,
      job.owner,       std::string(spec::WordOf(spec.task, spec::kTaskWords)),
      ModelName(spec), *job.start_time - since,
      TimeLeft(job)};
}

}  // namespace mpsd::jobs
