// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/data/batch.h"
#include "core/device/profile.h"
#include "core/report/report.h"
#include "core/report/runbook.h"
#include "core/study/study.h"
#include "core/train/observer.h"
#include "core/train/stages.h"

namespace mpsd::study {

enum class StepKind {
  kWarmUp,
  kPlain,     // steady, without the profiler
  kProfiled,  // steady, under the profiler
};

struct ProfiledStep {
  StepKind kind;
  report::Progress progress;
  double data_wait() const { return progress.data_wait_seconds.value_or(0); }
  // Seconds excluding the wait for data.
  double work() const { return progress.seconds - data_wait(); }
};

struct ProfileTraceFile {
  std::string name;  // in the study's folder
  int64_t bytes = 0, steps = 0, events = 0;
};

// All measurements of a profile. FindingsOf and ProfileResult derive the
// rest from them without side effects.
struct ProfileFacts {
  std::string device;     // "cpu", "cuda", "mps"
  std::string gradients;  // GradientPath::name
  // The device works concurrently with the host, which has to wait for its
  // results.
  bool device_is_apart = false;
  std::vector<ProfiledStep> steps;
  profile::Tally tally;  // of the steps under the profiler
  // Seconds per step to make its micro-batches alone, and of the network's
  // forward alone.
  std::vector<double> data_seconds, forward_seconds;
  std::optional<ProfileTraceFile> trace;
  std::vector<std::string> unknown;  // human-readable

  // Seconds of a steady step: its work without the profiler, and its wait for
  // data under the profiler (earlier steps find data made ahead).
  double StepSeconds() const;
  double DataWaitSeconds() const;  // the mean of steps under the profiler
  // The median work of the steps of `kind`, seconds; 0 without any.
  double WorkSeconds(StepKind kind) const;
  // The relative slowdown of a step's work under the profiler; 0.1 for a tenth.
  double Overhead() const;
  // Operators on the CPU that the device lacks, over all steps.
  const report::Counts& fallbacks() const;
  // Growth of the device's live tensors from the first steady steps to the last
  // ones, relative to the former. Absent with fewer than 10 steady steps or
  // without such a counter: the process's memory includes the profiler's.
  std::optional<double> MemoryGrowth() const;
  // The mean share of time that the device was busy; absent: unknown.
  std::optional<double> Utilization() const;
};

// Findings that need no guess, each WARN above its threshold, with what to do:
//
//   profile.data      the step waits for data
//   profile.blocking  the host waits for the device within a step
//   profile.fallback  operators run on the CPU
std::vector<runbook::Finding> FindingsOf(const ProfileFacts& facts,
                                         const runbook::Thresholds& thresholds);

// 0 without any.
double Median(std::vector<double> values);
double Mean(const std::vector<double>& values);

// The message ProfileResult of proto/mpsd/v1/profile.proto.
nlohmann::json ProfileResult(const ProfileFacts& facts);

// Parts of a step measured separately, as the run's own steps perform them.
// Both end early after some seconds, and are Cancelled if `observer` asks for a
// stop.

struct BatchTimes {
  std::vector<double> seconds;                    // per step
  std::vector<std::vector<data::Batch>> batches;  // of some steps
};

// Makes the micro-batches of `steps` steps, starting with the next step that
// `run` would train, on the calling thread; of fewer if the first epoch, whose
// samples have not been read yet, ends before. Ends the loader's own thread.
absl::StatusOr<BatchTimes> TimeBatches(train::Prepared& run, int64_t steps,
                                       train::Observer& observer);

// Computes the loss of each step of `batches` as an evaluation does, without a
// gradient; the batches are on the device before the clock starts. Returns the
// seconds of each step.
absl::StatusOr<std::vector<double>> TimeForward(
    train::Prepared& run, const std::vector<std::vector<data::Batch>>& batches,
    train::Observer& observer);

// Decides the kind of each step of a profile. After the warm-up come sessions:
// plain steps, then steps under the profiler. The plain ones show what the
// profiler costs, and use up the data that the loader made ahead while the
// previous session was processed.
class ProfilePlan {
 public:
  static constexpr int64_t kPlainSteps = 2;    // per session
  static constexpr int64_t kSessionSteps = 5;  // under the profiler, at most
  // Events that a session may have: torch's profiler keeps all of them in
  // memory, some 1 KiB each.
  static constexpr int64_t kSessionEvents = 500'000;

  ProfilePlan(int64_t warm_up, int64_t profiled)
      : warm_up_(warm_up), left_(profiled) {}

  // The next step; absent: the profile is complete.
  std::optional<StepKind> Next() const;
  // The next step has been taken.
  void Taken();
  // Whether the last step under the profiler is the last of its session.
  bool EndsSession() const { return next_ == StepKind::kPlain || left_ == 0; }
  // A session of `steps` steps had `events` events: later ones get fewer steps
  // if they would have too many.
  void Note(int64_t events, int64_t steps);
  // Steps of all kinds, as far as known.
  int64_t total() const;

 private:
  int64_t warm_up_;
  int64_t left_;  // under the profiler
  int64_t session_ = kSessionSteps;
  int64_t taken_ = 0;
  int64_t in_part_ = 0;  // consecutive steps of this kind
  StepKind next_ = StepKind::kWarmUp;
};

// Watches a run for a profile: between steps, where train::Loop asks for a
// stop, it starts and ends the profiler, and requests a stop when the plan has
// no more steps. Forwards everything except evaluations and checkpoints to the
// study's observer.
class ProfiledSteps : public train::Observer {
 public:
  // `observer` must outlive this object. `plan` applies from Begin on.
  ProfiledSteps(ProfilePlan plan, train::Observer& observer)
      : plan_(plan), observer_(observer) {}

  // Call before the first step: the next stop_request precedes it.
  void Begin() { between_ = true; }

  void OnDevice(const std::string& name) override { observer_.OnDevice(name); }
  void OnStage(const std::string& stage, double fraction) override {
    observer_.OnStage(stage, fraction);
  }
  void OnStep(const report::Progress& progress) override;
  train::StopRequest stop_request() override;

  // Whether all steps of the plan were taken and the run was stopped for that.
  bool complete() const { return complete_; }

  // Moves the steps out; the trace of the last session goes to `folder`, or, if
  // there is none, the reason to `unknown`.
  void Finish(const std::filesystem::path& folder, ProfileFacts& facts);

 private:
  void TellWarning(const std::string& text) override {
    observer_.OnWarning(text);
  }
  void EndSession();

  ProfilePlan plan_;
  train::Observer& observer_;
  profile::Recorder recorder_;
  profile::Tally tally_;
  std::vector<ProfiledStep> steps_;
  int64_t session_steps_ = 0, session_events_ = 0;  // of the last session
  bool between_ = false;  // two steps, or before the first
  bool complete_ = false;
};

}  // namespace mpsd::study
