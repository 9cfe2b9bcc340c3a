// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_STUDY_PROFILED_STEPS_H_
#define MPSD_CORE_STUDY_PROFILED_STEPS_H_

#include <filesystem>
#include <string>
#include <vector>

#include "core/profile/recorder.h"
#include "core/study/profile_facts.h"
#include "core/study/profile_plan.h"
#include "core/train/observer.h"

namespace mpsd::study {

// Watches a run for a profile: between two steps, where train::Loop asks for a
// stop, it starts and ends the profiler, and asks for a stop itself once the
// plan has no more steps. Everything but evaluations and checkpoints goes on to
// the study's observer.
class ProfiledSteps : public train::Observer {
 public:
  // `observer` must outlive it. Plans as `plan` says, from Begin on.
  ProfiledSteps(ProfilePlan plan, train::Observer& observer)
      : plan_(plan), observer_(observer) {}

  // The next question for a stop comes before the first step.
  void Begin() { between_ = true; }

  void OnDevice(const std::string& name) override { observer_.OnDevice(name); }
  void OnStage(const std::string& stage, double fraction) override {
    observer_.OnStage(stage, fraction);
  }
  void OnStep(const report::Progress& progress) override;
  void OnEval(const report::Evaluated&) override {}
  void OnCheckpoint(const report::Checkpointed&) override {}
  train::StopRequest stop_request() override;

  // Whether all steps of the plan were taken: the run was stopped for that.
  bool complete() const { return complete_; }

  // What the steps were. Moves them out; the trace of the last session goes to
  // `folder`, and a reason to `not_told` where there is none.
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
