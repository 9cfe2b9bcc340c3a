// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_STUDY_STEP_RUN_H_
#define MPSD_CORE_STUDY_STEP_RUN_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "core/data/loader.h"
#include "core/optim/adamw.h"
#include "core/optim/schedule.h"
#include "core/spec/train_spec.h"
#include "core/train/stages.h"
#include "core/train/step.h"

namespace mpsd::study {

// The first steps of a job's training, one by one, for who looks at gradients
// and values between them: the same samples, learning rates and initial values
// as train::Run has, without checkpoints, evaluations of its own and a folder.
// Another run in this process before it changes nothing: opening the device
// seeds all generators anew.
class StepRun {
 public:
  struct Options {
    spec::DeviceChoice device = spec::DeviceChoice::kAuto;
    // The job's dropout; false: none, the adapter's neither.
    bool dropout = true;
    // Rows of evaluations; absent: the job's.
    std::optional<int64_t> max_eval_samples = {};
  };
  // `context` and `observer` must outlive the result. Errors as train::Run.
  static absl::StatusOr<std::unique_ptr<StepRun>> Open(
      spec::TrainSpec spec, const train::RunContext& context,
      train::Observer& observer, const Options& options);
  StepRun(const StepRun&) = delete;
  StepRun& operator=(const StepRun&) = delete;

  struct Step {
    train::StepResult result;
    double learning_rate = 0;
    double seconds = 0;
    int64_t tokens = 0, label_tokens = 0;
    std::string samples;  // DigestOfSamples
  };
  // The next step; the parameters' gradients are then those of the step, as
  // they were clipped. Cancelled where the observer asks for a stop.
  absl::StatusOr<Step> Next();

  // The value of `metric`, "loss" or one of the task's, on the job's
  // evaluation data; absent where there are no data or no such metric. ""
  // stands for the job's metric_for_best_model.
  absl::StatusOr<std::optional<double>> Evaluate(const std::string& metric);
  // The job's metric_for_best_model; empty without evaluation data.
  std::string metric() const;

  int64_t total_steps() const { return total_steps_; }
  // Whether the steps draw random masks.
  bool has_dropout() const;
  const std::string& gradient_path() const { return gradient_path_; }
  const train::Loaded& loaded() const { return loaded_; }
  optim::ParameterSet& parameters() { return loaded_.trainable->parameters(); }

 private:
  StepRun(train::Loaded loaded, data::LoaderOptions options);

  train::Loaded loaded_;
  optim::AdamW optimizer_;
  train::Stepper stepper_;
  const std::string gradient_path_;
  data::Loader loader_;
  const int64_t total_steps_;
  std::optional<optim::Schedule> schedule_;
  int64_t step_ = 0;
};

}  // namespace mpsd::study

#endif  // MPSD_CORE_STUDY_STEP_RUN_H_
