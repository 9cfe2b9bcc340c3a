// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/host/host.h"
#include "core/report/report.h"
#include "core/spec/train_spec.h"
#include "server/jobs/job_queue.h"
#include "server/jobs/pause_gate.h"
#include "server/store/job.h"

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
  void Resume(absl::Duration now);
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

// A method of the API.
struct CallMethod {
  std::string name;  // "JobService.Submit"
  bool is_stream = false;
};

// The server reports the calls of the API here. Thread-safe. An implementation
// must not block. Implemented by server/http.
class ExportedCalls {
 public:
  virtual ~ExportedCalls() = default;
  // The server has this method; called before the method's first call. The
  // methods of all calls are among these, so their number is bounded.
  virtual void MethodServed(const CallMethod& method) = 0;
  virtual void CallStarted(const CallMethod& method) = 0;
  // `code`: the client's status, kCancelled if the client did not wait for the
  // response. `duration`: from the call's arrival to its end.
  virtual void CallEnded(const CallMethod& method, absl::StatusCode code,
                         absl::Duration duration) = 0;
};

// A starting job, as the exported metrics describe it.
struct StartedJob {
  std::string id, name, owner;
  std::string task;   // as job.json has it: "CAUSAL_LM"
  std::string model;  // its id, or else the last part of its folder's path
  absl::Duration queue_wait;
  std::optional<absl::Duration> time_left = {};  // TimeLeft()
};

// `spec`: the job's. `job` has its start_time; it was queued at `since`.
StartedJob DescribeStart(const Job& job, const spec::TrainSpec& spec,
                         absl::Time since);

// The scheduler reports its events to the exported metrics here. Thread-safe.
// An implementation must not block nor call the scheduler. Implemented by
// server/http.
class ExportedMetrics {
 public:
  virtual ~ExportedMetrics() = default;
  virtual void JobCounts(const std::map<State, int64_t>& jobs) = 0;
  // Called soon after each change of the queue, with its depth then.
  virtual void QueueChanged(const QueueDepth& depth) = 0;
  virtual void JobStarted(const StartedJob& job) = 0;
  // The activity of the last started job's worker, until WorkerExited.
  // `device`: "mps", "cuda" or "cpu".
  virtual void DeviceOpened(const std::string& job_id,
                            const std::string& device) = 0;
  virtual void StageBegan(const std::string& stage) = 0;
  // Whether the worker halts for a pause.
  virtual void WorkerHalts(bool halts) = 0;
  virtual void StepFinished(const std::string& job_id,
                            const Progress& progress) = 0;
  // `device`: of the attempt, empty before the worker has reported it.
  virtual void Evaluated(const std::string& job_id, const std::string& device,
                         const jobs::Evaluated& evaluated) = 0;
  virtual void CheckpointWritten(const std::string& job_id,
                                 const std::string& device, double seconds) = 0;
  virtual void WorkerExited(ExitReason reason) = 0;
  // A job returns to the queue, since its attempt ended for `reason`.
  virtual void JobReturned(ExitReason reason) = 0;
  virtual void HostRead(const host::Reading& reading) = 0;
  // The reasons that keep jobs from training now; empty: none.
  virtual void Paused(const PauseReasons& reasons) = 0;
  // The reasons that keep queued jobs from starting though nothing trains.
  virtual void Held(const Holds& holds) = 0;
  // The job is in `state`, a final one, and reports nothing more: its series
  // may be removed.
  virtual void JobEnded(const std::string& job_id, State state) = 0;
  // The job's series are removed at once.
  virtual void JobDeleted(const std::string& job_id) = 0;
};

}  // namespace mpsd::jobs
