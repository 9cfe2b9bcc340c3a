// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/phase_clock.h"

#include <algorithm>
#include <cmath>

#include "core/report/stage_names.h"

namespace mpsd::jobs {
namespace {

// A worker's seconds, at most `most`; nothing where they are no time.
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
  // wait that does not fit waits for the next.
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

}  // namespace mpsd::jobs
