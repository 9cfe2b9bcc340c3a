// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/ckpt/checkpoint.h"
#include "core/data/batch_shapes.h"
#include "core/data/loader.h"
#include "core/device/device.h"
#include "core/model/network.h"
#include "core/optim/adamw.h"
#include "core/optim/parameters.h"
#include "core/optim/schedule.h"
#include "core/spec/model_config.h"
#include "core/spec/train_spec.h"
#include "core/train/evaluate.h"
#include "core/train/fingerprint.h"
#include "core/train/observer.h"
#include "core/train/run.h"
#include "core/train/run_folder.h"
#include "core/train/step.h"
#include "core/train/task_pipeline.h"

// The stages of Run (run.h), one file each: open.cc, load.cc, prepare.cc,
// loop.cc, finish.cc. A stage's result is complete, and is all that the next
// one reads.
namespace mpsd::train {

// A job whose spec fits the model's config, checked without a device.
struct Described {
  std::string model_folder;
  spec::ModelConfig config;  // as read from `model_folder`
  // With an adapter's settings and LoRA's defaults filled in.
  std::unique_ptr<spec::TrainSpec> spec;
};

// Errors are those of the model's folder, and of a spec that does not fit
// config.json. Reports fields without effect to `observer`.
absl::StatusOr<Described> Describe(spec::TrainSpec spec, Observer& observer);

// A job whose device is open and whose spec fits the model's config.
struct Opened {
  const RunContext& context;               // outlives all stages
  Observer& observer;                      // outlives all stages
  std::unique_ptr<device::Device> device;  // seeded
  std::string model_folder;
  std::unique_ptr<ModelDigests> digests;  // works during later stages
  spec::ModelConfig config;               // as read from `model_folder`
  // With an adapter's settings and LoRA's defaults filled in. Only Load still
  // completes it: modules without weights are saved with the adapter.
  std::unique_ptr<spec::TrainSpec> spec;
};

// Errors are those of the device and of the model's folder, and of a spec that
// does not fit config.json.
absl::StatusOr<Opened> Open(spec::TrainSpec spec, const RunContext& context,
                            Observer& observer);

// A job with its data and its model in memory. From here on only the
// trainable's parameters and the network's way of computing change.
struct Loaded {
  const RunContext& context;
  Observer& observer;
  std::unique_ptr<device::Device> device;
  std::string model_folder;
  std::unique_ptr<ModelDigests> digests;
  // Complete: the fingerprint is that of this spec. Completed in another way,
  // it would make every older checkpoint one "of another job".
  std::unique_ptr<const spec::TrainSpec> spec;
  spec::ModelConfig config;  // with the values that the data determine
  std::unique_ptr<TaskPipeline> pipeline;
  TaskData data;
  BestModel best;
  std::vector<std::string> weight_files;  // of the model folder: those read
  std::unique_ptr<model::Network> network;
  std::unique_ptr<optim::Trainable> trainable;  // destroyed before `network`

  TrainingSubject subject() const {
    return {*pipeline, *network, *trainable, *device};
  }
  data::BatchShapes shapes() const {
    return {*spec, config, device->traits(), device->name()};
  }
};

// Loads data and weights, concurrently if the data do not change the model, and
// attaches what is trained. Errors of the data (including an unknown metric or
// schedule) come before those of the weights, as soon as they are known. For
// preferences also computes the reference (preferences.h): Cancelled if the
// observer asks for a stop meanwhile.
absl::StatusOr<Loaded> Load(Opened opened);

// A run that can take its next step: the first, or the one after the checkpoint
// that it resumes from.
struct Prepared {
  Loaded loaded;
  std::unique_ptr<optim::AdamW> optimizer;
  std::unique_ptr<Stepper> stepper;
  int64_t micro_batch_rows;
  std::unique_ptr<data::Prefetcher> loader;
  std::optional<data::EvalLoader> eval_loader;  // absent: no evaluation data
  optim::Schedule schedule;
  // Without a checkpoint the fingerprint is empty until the first step has
  // ended, as is manifest.model_sha256.
  ckpt::TrainerState state;
  int64_t saved_step;  // step of the last checkpoint; 0: none
  // The step of the best before the best of `state`, until that is saved.
  int64_t superseded_best = 0;
  // Checkpoints that were set aside, to be reported with the next one saved.
  std::vector<std::filesystem::path> gone;
  std::unique_ptr<RunFolder> folder;
  Manifest manifest;
  std::map<std::string, int64_t> earlier_fallbacks;  // of earlier attempts
  device::MemoryWatch memory;

  // Evaluates the current weights, by `eval_loader`. Cancelled if the observer
  // asks for a stop.
  absl::StatusOr<EvalResult> EvaluateWeights() const;
  // Whether training.sample_prompts are to be answered at this step, after
  // which the run is over if `at_end`.
  bool SampleDue(bool at_end) const;
  // Answers them by the current weights, and reports that. Cancelled if the
  // observer asks for a stop. Draws no random numbers of the run.
  absl::Status Sample();
  // Operators that ran on the CPU, counted over all attempts of the job.
  std::map<std::string, int64_t> Fallbacks() const;
  // Brings run.json up to date; `run_state` is its "state".
  absl::Status UpdateManifest(const std::string& run_state);
};

// Decides the micro-batch, resumes from a checkpoint if the run's folder has
// one, and opens the folder.
absl::StatusOr<Prepared> Prepare(Loaded loaded);

struct LoopEnd {
  bool complete = false;  // false: a stop ended the loop
  StopRequest stopped = StopRequest::kNone;
  std::optional<EvalResult> last_eval;  // absent: no evaluation in this process
};

// Trains, evaluates and saves checkpoints until the last step (or early
// stopping), or until the observer asks for a stop. A stop between two
// micro-batches of a step undoes the step: a checkpoint written then, or the
// last one, leads to the same bytes as a run that was never stopped. DataLoss
// for numbers that cannot be trusted.
absl::StatusOr<LoopEnd> Loop(Prepared& run);

// Completes a run whose loop is complete: goes back to the best checkpoint if
// the job asks for it, writes a classifier's predictions, and writes the
// adapter or the model, completely or not at all. `last_eval` is LoopEnd's. A
// stop during an evaluation or prediction ends as FinishStopped does. DataLoss
// if a trained value is not finite.
absl::StatusOr<RunResult> Finish(Prepared& run,
                                 std::optional<EvalResult> last_eval);

// Ends a stopped run and records that in run.json.
absl::StatusOr<RunResult> FinishStopped(Prepared& run, StopRequest request);

}  // namespace mpsd::train
