// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "core/base/check.h"
#include "core/base/clock.h"
#include "core/base/status_macros.h"
#include "core/ckpt/checkpoint.h"
#include "core/device/block_mark.h"
#include "core/host/machine.h"
#include "core/report/report.h"
#include "core/train/resume.h"
#include "core/train/stages.h"

namespace mpsd::train {
namespace {

double SecondsSince(absl::Duration start) {
  return absl::ToDoubleSeconds(base::Clock::Real().Monotonic() - start);
}

report::MemoryCounters CountersOf(const device::Memory& memory) {
  report::MemoryCounters counters;
  counters.current_allocated_bytes = memory.current_allocated;
  counters.driver_allocated_bytes = memory.driver_allocated;
  counters.recommended_max_bytes = memory.recommended_max;
  counters.footprint_bytes = host::ProcessFootprintBytes();
  counters.peak_allocated_bytes = memory.peak_allocated;
  return counters;
}

bool Finished(const Prepared& run) {
  const ckpt::TrainerState& state = run.state;
  const auto& patience = run.loaded.spec->training.early_stopping_patience;
  return state.step >= state.total_steps ||
         (patience && state.evaluations_without_gain >= *patience);
}

bool EvalDue(const Prepared& run) {
  const ckpt::TrainerState& state = run.state;
  const int64_t steps = run.loaded.spec->training.eval_steps;
  if (!run.eval_loader || state.eval_step == state.step) return false;
  const int64_t every = steps > 0 ? steps : run.loader->steps_per_epoch();
  return state.step % every == 0 || state.step >= state.total_steps;
}

bool SaveDue(const Prepared& run) {
  const ckpt::TrainerState& state = run.state;
  const spec::TrainingSpec& training = run.loaded.spec->training;
  if (state.step == 0 || run.saved_step == state.step) return false;
  const bool is_best = training.load_best_model_at_end &&
                       state.best_step == state.step &&
                       state.best_metric.has_value();
  const int64_t every = training.save_steps;
  return (every > 0 && state.step % every == 0) || is_best || Finished(run);
}

absl::StatusOr<std::vector<data::Batch>> NextBatches(data::Prefetcher& loader) {
  const profile::BlockMark mark("mpsd::data");
  return loader.NextStep();
}

// Cancelled for a stop between two micro-batches. The generators and the loader
// are then reset to the step's beginning.
absl::Status TrainStep(Prepared& run) {
  Observer& observer = run.loaded.observer;
  device::Device& device = *run.loaded.device;
  ckpt::TrainerState& state = run.state;
  const profile::BlockMark step("mpsd::step");
  const absl::Duration start = base::Clock::Real().Monotonic();
  ASSIGN_OR_RETURN(auto batches, NextBatches(*run.loader));
  const double data_wait = SecondsSince(start);
  const double learning_rate = run.schedule.LearningRate(state.step);
  const at::Tensor cpu_random = device::CpuRngState();
  const at::Tensor device_random = device.RngState();
  double held = 0;  // seconds that a pause held the step
  auto result = run.stepper->Run(batches, learning_rate, [&] {
    const absl::Duration asked = base::Clock::Real().Monotonic();
    const bool go_on = observer.stop_request() == StopRequest::kNone;
    held += SecondsSince(asked);
    return go_on;
  });
  if (absl::IsCancelled(result.status())) {
    device.SetRngState(device_random);
    device::SetCpuRngState(cpu_random);
    run.loader->Seek({state.epoch, state.step_in_epoch});
  }
  if (!result.ok()) return result.status();
  report::Progress report;
  int64_t padded_tokens = 0;
  for (const data::Batch& batch : batches) {
    report.tokens += batch.tokens;
    padded_tokens += batch.rows * batch.length;
    report.label_tokens += LabelsOf(batch);
  }
  report.padded_tokens = padded_tokens;
  base::CheckLess(state.step, state.total_steps, "the step, and all");
  report.step = ++state.step;
  report.total_steps = state.total_steps;
  report.epoch = run.loader->epoch_fraction();
  report.loss = result->loss;
  report.learning_rate = learning_rate;
  report.grad_norm = result->grad_norm;
  report.metrics = std::move(result->metrics);
  report.seconds = SecondsSince(start) - held;
  report.data_wait_seconds = data_wait;
  report.device = device.name();
  const device::Memory memory = device.GetMemory();
  report.memory = CountersOf(memory);
  report.cpu_fallback_ops = run.Fallbacks();
  report.device_utilization_ratio = device.utilization_ratio();
  const data::Cursor cursor = run.loader->cursor();
  state.epoch = cursor.epoch;
  state.step_in_epoch = cursor.step_in_epoch;
  state.loss_sum += report.loss;
  state.tokens_seen += report.tokens;
  state.seconds += report.seconds;
  observer.OnStep(report);
  if (const auto text = run.memory.Observe(memory)) {
    observer.OnWarning(*text);
  }
  return run.folder->Append(report);
}

// The run's inputs are hashed during its first step: a checkpoint is written
// only with a fingerprint.
absl::Status Identify(Prepared& run) {
  ASSIGN_OR_RETURN(auto identity, IdentifyJob(run.loaded));
  run.manifest.model_sha256 = std::move(identity.model_sha256);
  run.state.fingerprint = std::move(identity.fingerprint);
  return run.UpdateManifest("RUNNING");
}

absl::Status EvaluateNow(Prepared& run, std::optional<EvalResult>& last_eval) {
  ckpt::TrainerState& state = run.state;
  const absl::Duration start = base::Clock::Real().Monotonic();
  ASSIGN_OR_RETURN(auto result, run.EvaluateWeights());
  const bool first = state.eval_step <= 0;  // since training began
  state.eval_step = state.step;
  state.eval_loss = result.loss;
  state.eval_metrics = result.metrics;
  bool is_best = false;
  if (state.step == 0) {
    state.eval_loss_before = result.loss;
  } else {
    const BestModel& best = run.loaded.best;
    const double value = best.ValueOf(result);
    state.evaluations_without_gain = best.Gains(value, state.best_metric, first)
                                         ? 0
                                         : state.evaluations_without_gain + 1;
    is_best = best.IsBetter(value, state.best_metric);
    if (is_best) {
      run.superseded_best = state.best_step;
      state.best_metric = value;
      state.best_step = state.step;
    }
  }
  const report::Evaluated report{state.step,          result.loss,
                                 result.label_tokens, SecondsSince(start),
                                 result.metrics,      is_best};
  last_eval = std::move(result);
  run.loaded.observer.OnEval(report);
  return run.folder->Append(report);
}

absl::Status SaveNow(Prepared& run) {
  const ckpt::TrainerState& state = run.state;
  const spec::TrainingSpec& training = run.loaded.spec->training;
  base::Check(!state.fingerprint.empty(), "a checkpoint names what it read");
  run.loaded.observer.OnStage(report::kStageSaving, 0);
  const absl::Duration start = base::Clock::Real().Monotonic();
  const std::filesystem::path& out_dir = run.loaded.context.out_dir;
  ASSIGN_OR_RETURN(auto saved,
                   ckpt::SaveCheckpoint(out_dir, state,
                                        {*run.loaded.trainable, *run.optimizer,
                                         *run.loaded.device}));
  run.saved_step = state.step;
  report::Checkpointed report{
      state.step, saved.path.string(), saved.bytes, SecondsSince(start), {}};
  for (const auto& path : std::exchange(run.gone, {})) {
    // A checkpoint set aside earlier whose step has now been saved again is not
    // gone.
    if (path != saved.path) report.removed_paths.push_back(path.string());
  }
  // A best that save_steps did not ask for goes once there is a better one.
  const int64_t before = std::exchange(run.superseded_best, 0);
  const bool asked_for =
      training.save_steps > 0 && before % training.save_steps == 0;
  if (training.load_best_model_at_end && before > 0 && !asked_for &&
      ckpt::Remove(out_dir, before)) {
    report.removed_paths.push_back(
        ckpt::CheckpointPath(out_dir, before).string());
  }
  if (const auto& limit = training.save_total_limit) {
    const int64_t best = training.load_best_model_at_end ? state.best_step : 0;
    for (const auto& path : ckpt::Prune(out_dir, *limit, state.step, best)) {
      report.removed_paths.push_back(path.string());
    }
  }
  run.loaded.observer.OnCheckpoint(report);
  return absl::OkStatus();
}

// A preempted run saves its last step before it ends.
absl::StatusOr<LoopEnd> Stop(Prepared& run, StopRequest request) {
  if (request == StopRequest::kPreempt && run.state.step > 0 &&
      run.saved_step != run.state.step) {
    RETURN_IF_ERROR(SaveNow(run));
  }
  return LoopEnd{false, request, std::nullopt};
}

}  // namespace

absl::StatusOr<LoopEnd> Loop(Prepared& run) {
  Observer& observer = run.loaded.observer;
  std::optional<EvalResult> last_eval;
  observer.OnStage(report::kStageTraining, 0);
  while (true) {
    // Step 0 is evaluated too: the loss before training. A stop during an
    // evaluation saves a state whose eval_step is older than its step, so that
    // the next attempt begins with that evaluation.
    if (EvalDue(run)) {
      absl::Status s = EvaluateNow(run, last_eval);
      if (absl::IsCancelled(s)) return Stop(run, observer.stop_request());
      if (!s.ok()) return s;
    }
    // A checkpoint comes after the evaluation of its step: its state then has
    // the metrics that decide which checkpoint is the best.
    if (SaveDue(run)) {
      RETURN_IF_ERROR(SaveNow(run));
    }
    if (!Finished(run) && run.SampleDue(/*at_end=*/false)) {
      absl::Status s = run.Sample();
      if (absl::IsCancelled(s)) return Stop(run, observer.stop_request());
      if (!s.ok()) return s;
    }
    if (Finished(run)) return LoopEnd{true, {}, std::move(last_eval)};
    if (const StopRequest stop = observer.stop_request();
        stop != StopRequest::kNone) {
      return Stop(run, stop);
    }
    absl::Status s = TrainStep(run);
    if (absl::IsCancelled(s)) return Stop(run, observer.stop_request());
    if (s.ok() && run.state.fingerprint.empty()) s = Identify(run);
    if (!s.ok()) return s;
  }
}

}  // namespace mpsd::train
