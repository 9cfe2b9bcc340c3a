// SPDX-License-Identifier: Apache-2.0
#include "core/study/profile.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "core/base/status_macros.h"
#include "core/report/study_options.h"
#include "core/study/profile_facts.h"
#include "core/study/profile_result.h"
#include "core/study/profiled_steps.h"
#include "core/study/step_parts.h"
#include "core/train/stages.h"

namespace mpsd::study {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kLoaderSteps = 20;
// Above this overhead the times of short operators are the profiler's own.
constexpr double kLargeOverhead = 0.5;

// The folder that the run writes to, removed with the study.
class Scratch {
 public:
  explicit Scratch(fs::path path) : path_(std::move(path)) { Remove(); }
  ~Scratch() { Remove(); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const fs::path& path() const { return path_; }

 private:
  void Remove() const {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path path_;
};

// The training, but without an end and without saving.
spec::TrainSpec WithoutEnd(spec::TrainSpec spec) {
  spec.training.max_steps = std::numeric_limits<int32_t>::max();
  spec.training.save_steps = 0;
  spec.training.early_stopping_patience.reset();
  spec.training.load_best_model_at_end = false;
  return spec;
}

void NoteWhatIsNotTold(ProfileFacts& facts) {
  if (facts.device_is_apart && !facts.tally.device_told) {
    facts.not_told.emplace_back(
        "the device's own times: all times are the host's, which queues work "
        "and waits for it at the end of a step");
  }
  if (facts.Overhead() > kLargeOverhead) {
    facts.not_told.push_back(absl::StrFormat(
        "operators' times without the profiler: a step takes %.0f %% longer "
        "under the profiler, which makes short operators look long",
        facts.Overhead() * 100));
  }
}

}  // namespace

absl::StatusOr<Found> Profile(const Study& study) {
  ASSIGN_OR_RETURN(const auto options,
                   runbook::ProfileOptionsFromJson(study.options));
  const ProfilePlan plan(options.warm_up_steps,
                         options.steps.value_or(static_cast<int64_t>(
                             study.thresholds.Get("profile.steps"))));
  const Scratch scratch(study.context.out_dir / "profiled");
  train::RunContext context = study.context;
  context.out_dir = scratch.path();
  ProfiledSteps steps(plan, study.observer);
  ASSIGN_OR_RETURN(auto opened,
                   train::Open(WithoutEnd(study.spec), context, steps));
  ASSIGN_OR_RETURN(auto loaded, train::Load(std::move(opened)));
  ASSIGN_OR_RETURN(auto run, train::Prepare(std::move(loaded)));
  run.eval_loader.reset();

  steps.Begin();
  ASSIGN_OR_RETURN(const auto end, train::Loop(run));
  if (!steps.complete()) return absl::CancelledError("the study was stopped");

  ProfileFacts facts;
  facts.device = run.loaded.device->name();
  facts.device_is_apart =
      run.loaded.device->traits().memory != backend::MemoryPlace::kHost;
  facts.gradients = run.stepper->gradient_path();
  steps.Finish(study.context.out_dir, facts);
  study.observer.OnStage("timing the loader and the forward alone", 0);
  ASSIGN_OR_RETURN(auto loader, TimeBatches(run, kLoaderSteps, study.observer));
  ASSIGN_OR_RETURN(auto forward,
                   TimeForward(run, loader.batches, study.observer));
  facts.data_seconds = std::move(loader.seconds);
  facts.forward_seconds = std::move(forward);
  NoteWhatIsNotTold(facts);
  return Found{ProfileResult(facts), FindingsOf(facts, study.thresholds)};
}

}  // namespace mpsd::study
