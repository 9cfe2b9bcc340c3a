// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_STUDY_PROFILED_STEPS_H_
#define MPSD_CORE_STUDY_PROFILED_STEPS_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/device/recorder.h"
#include "core/study/profile_facts.h"
#include "core/train/observer.h"

namespace mpsd::study {

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
  void OnEval(const report::Evaluated&) override {}
  void OnCheckpoint(const report::Checkpointed&) override {}
  train::StopRequest stop_request() override;

  // Whether all steps of the plan were taken and the run was stopped for that.
  bool complete() const { return complete_; }

  // Moves the steps out; the trace of the last session goes to `folder`, or, if
  // there is none, the reason to `not_told`.
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

#endif  // MPSD_CORE_STUDY_PROFILED_STEPS_H_
