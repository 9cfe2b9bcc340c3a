// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_METERS_H_
#define MPSD_SERVER_JOBS_METERS_H_

#include <map>
#include <optional>
#include <string_view>

#include "absl/time/time.h"
#include "core/report/report.h"
#include "server/jobs/job.h"

namespace mpsd::jobs {

// Measures how long an attempt holds the device; pauses do not count. Times
// come from a clock that never jumps and stops while the machine sleeps
// (base::AwakeTime). A call that repeats the one before it does nothing. Not
// thread-safe.
class DeviceMeter {
 public:
  // Measures from `now` on.
  explicit DeviceMeter(absl::Duration now) : since_(now) {}

  void Stop(absl::Duration now);
  void GoOn(absl::Duration now);
  // The time measured until `now`.
  absl::Duration Measured(absl::Duration now) const;
  bool is_running() const { return since_.has_value(); }

 private:
  absl::Duration before_;                // measured until the last Stop
  std::optional<absl::Duration> since_;  // absent after Stop
};

// What a worker spends its time on.
enum class Phase {
  kLoad,      // everything before the first step and evaluation
  kTrain,     // steps, except kDataWait
  kDataWait,  // a step waits for its data
  kEvaluate,  // evaluations and predictions
  kSave,      // checkpoints and the result
  kPaused,    // halted by the pause gate
};
// The names are the labels of metrics.
inline constexpr report::EnumName<Phase> kPhases[] = {
    {Phase::kLoad, "load"},          {Phase::kTrain, "train"},
    {Phase::kDataWait, "data_wait"}, {Phase::kEvaluate, "evaluate"},
    {Phase::kSave, "save"},          {Phase::kPaused, "paused"}};
inline constexpr auto kAllPhases = report::ValuesOf(kPhases);
constexpr std::string_view Name(Phase phase) {
  return report::NameIn(kPhases, phase);
}

// Divides the time of one worker among the phases. A worker announces what
// begins (a stage, a hold) and reports the seconds of what is over (a step, an
// evaluation, a checkpoint); both count here. No more seconds are accepted than
// passed since the report before, so that the phases add up to the worker's
// life. Times are monotonic; `now` never falls. Not thread-safe.
class PhaseClock {
 public:
  // The worker starts at `now`.
  explicit PhaseClock(absl::Duration now) : started_(now), since_(now) {}

  // `stage`: as the worker's Heartbeat has it (core/report/report.h).
  void Staged(std::string_view stage, absl::Duration now);
  void Halted(absl::Duration now);
  void Resumed(absl::Duration now);
  void Stepped(const report::Progress& progress, absl::Duration now);
  void Evaluated(double seconds, absl::Duration now);
  void Saved(double seconds, absl::Duration now);

  // The time of each phase until `now`; their sum is the worker's age. Time
  // that no report covers yet counts for the phase that was announced last, so
  // that a phase may lose a little to another at the next report.
  std::map<Phase, absl::Duration> Spent(absl::Duration now) const;

 private:
  // Gives `time`, or what is left of the time until `now`, to `phase`; returns
  // what it gave.
  absl::Duration Take(Phase phase, absl::Duration time, absl::Duration now);
  // Gives the rest of the time until `now` to the current phase; `next`
  // continues from here.
  void Enter(Phase next, absl::Duration now);

  absl::Duration started_;
  std::map<Phase, absl::Duration> spent_;  // until since_
  absl::Duration since_;
  Phase phase_ = Phase::kLoad;         // the current phase
  Phase halted_phase_ = Phase::kLoad;  // resumes after kPaused
  bool has_begun_ = false;             // the loading is over
  absl::Duration untaken_wait_;        // reported waits, not given yet
};

// The speed and remaining time of one attempt, from averages of tokens and
// seconds per step in which the last step weighs a tenth. Not thread-safe.
class StepRate {
 public:
  static constexpr double kWeight = 0.1;

  // Fills in the fields of `progress` that the worker does not report: the
  // shares of this step, and tokens_per_second and eta_seconds including this
  // step. The ETA excludes evaluations and checkpoints to come. A share is
  // absent if the worker does not report its count.
  void Apply(Progress& progress);

 private:
  bool started_ = false;
  double tokens_ = 0;
  double seconds_ = 0;
};

// The remaining training time, at the pace of the job's last step, from its
// last checkpoint on, where another attempt would resume. Excludes evaluations
// and checkpoints. nullopt if no step of the job has finished.
std::optional<absl::Duration> TimeLeft(const Job& job);

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_METERS_H_
