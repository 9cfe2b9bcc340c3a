// SPDX-License-Identifier: Apache-2.0
#include "core/train/trainer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/clock.h"
#include "core/host/platform.h"

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

}  // namespace

Trainer::Trainer(spec::TrainSpec spec, TrainerOptions options,
                 Observer& observer)
    : spec_(std::move(spec)),
      options_(std::move(options)),
      observer_(observer),
      relay_(observer) {
  for (const std::string& file : spec_.dataset.train) {
    base::Check(std::filesystem::path(file).is_absolute(),
                "paths of the spec are absolute");
  }
}

Trainer::~Trainer() = default;

absl::StatusOr<RunResult> Trainer::Run() {
  using Part = absl::Status (Trainer::*)();
  constexpr Part kParts[] = {
      &Trainer::OpenDevice,
      &Trainer::ReadModelFolder,
      &Trainer::LoadDataAndModel,
      // AttachAdapter may still extend spec_.lora. From here on only the
      // trainable's parameters change.
      &Trainer::AttachTrainable,
      &Trainer::ChooseMicroBatch,
      // From here on spec_ stays as it is: its fingerprint is taken, by Resume
      // or after the first step. A stage that changed spec_ in another order
      // would make every older checkpoint one "of another job".
      &Trainer::Resume,
      &Trainer::OpenRunFolder,
  };
  for (const Part part : kParts) {
    if (absl::Status s = (this->*part)(); !s.ok()) return s;
  }
  observer_.OnStage("training", 0);
  return Loop();
}

absl::StatusOr<RunResult> Trainer::Loop() {
  base::Check(folder_ != nullptr, "every stage comes before the first step");
  while (true) {
    // Step 0 is evaluated too: the loss before training. A stop during an
    // evaluation saves a state whose eval_step is older than its step, so that
    // the next attempt begins with that evaluation.
    if (eval_due()) {
      absl::Status s = EvaluateNow();
      if (absl::IsCancelled(s)) return Stop(observer_.stop_request());
      if (!s.ok()) return s;
    }
    // A checkpoint comes after the evaluation of its step: its state then has
    // the metrics that decide which checkpoint is the best.
    if (save_due()) {
      if (absl::Status s = SaveNow(); !s.ok()) return s;
    }
    if (finished()) return Finish();
    if (const StopRequest stop = observer_.stop_request();
        stop != StopRequest::kNone) {
      return Stop(stop);
    }
    absl::Status s = TrainStep();
    if (absl::IsCancelled(s)) return Stop(observer_.stop_request());
    if (s.ok() && state_.fingerprint.empty()) {
      s = KnowInputs();
      if (s.ok()) s = UpdateManifest("RUNNING");
    }
    if (!s.ok()) return s;
  }
}

data::Padding Trainer::padding() const {
  const device::Traits& traits = device_->traits();
  if (traits.compiles_each_shape) return data::Padding::kBuckets;
  return traits.lengths_by_eight ? data::Padding::kMultipleOfEight
                                 : data::Padding::kLongest;
}

bool Trainer::finished() const {
  const auto& patience = spec_.training.early_stopping_patience;
  return state_.step >= state_.total_steps ||
         (patience && state_.evaluations_without_gain >= *patience);
}

bool Trainer::eval_due() const {
  if (eval_loader_ == nullptr || state_.eval_step == state_.step) return false;
  const int64_t every = spec_.training.eval_steps > 0
                            ? spec_.training.eval_steps
                            : loader_->steps_per_epoch();
  return state_.step % every == 0 || state_.step >= state_.total_steps;
}

bool Trainer::save_due() const {
  if (state_.step == 0 || saved_step_ == state_.step) return false;
  const bool is_best = spec_.training.load_best_model_at_end &&
                       state_.best_step == state_.step &&
                       state_.best_metric.has_value();
  const int64_t every = spec_.training.save_steps;
  return (every > 0 && state_.step % every == 0) || is_best || finished();
}

// Cancelled for a stop between two micro-batches. The generators and the loader
// are then set back to the step's beginning: a checkpoint written now, or the
// last one, leads to the same bytes as a run that was never stopped.
absl::Status Trainer::TrainStep() {
  const absl::Duration start = base::Clock::Real().Monotonic();
  auto batches = loader_->NextStep();
  if (!batches.ok()) return batches.status();
  const double data_wait = SecondsSince(start);
  const double learning_rate = schedule_->LearningRate(state_.step);
  const at::Tensor cpu_random = device::CpuRngState();
  const at::Tensor device_random = device_->RngState();
  double held = 0;  // seconds that a pause held the step
  auto result = stepper_->Run(*batches, learning_rate, [&] {
    const absl::Duration asked = base::Clock::Real().Monotonic();
    const bool go_on = observer_.stop_request() == StopRequest::kNone;
    held += SecondsSince(asked);
    return go_on;
  });
  if (absl::IsCancelled(result.status())) {
    device_->SetRngState(device_random);
    device::SetCpuRngState(cpu_random);
    loader_->Seek({state_.epoch, state_.step_in_epoch});
  }
  if (!result.ok()) return result.status();
  report::Progress report;
  int64_t padded_tokens = 0;
  for (const data::Batch& batch : *batches) {
    report.tokens += batch.tokens;
    padded_tokens += batch.rows * batch.length;
    report.label_tokens += batch.label_tokens;
  }
  report.padded_tokens = padded_tokens;
  base::CheckLess(state_.step, state_.total_steps, "the step, and all");
  report.step = ++state_.step;
  report.total_steps = state_.total_steps;
  report.epoch = loader_->epoch_fraction();
  report.loss = result->loss;
  report.learning_rate = learning_rate;
  report.grad_norm = result->grad_norm;
  report.seconds = SecondsSince(start) - held;
  report.data_wait_seconds = data_wait;
  report.device = device_->name();
  const device::Memory memory = device_->GetMemory();
  report.memory = CountersOf(memory);
  report.cpu_fallback_ops = Fallbacks();
  report.device_utilization_ratio = device_->utilization_ratio();
  const data::Cursor cursor = loader_->cursor();
  state_.epoch = cursor.epoch;
  state_.step_in_epoch = cursor.step_in_epoch;
  state_.loss_sum += report.loss;
  state_.tokens_seen += report.tokens;
  state_.seconds += report.seconds;
  observer_.OnStep(report);
  if (const auto text = memory_.Observe(memory)) {
    observer_.OnWarning(*text);
  }
  return folder_->Append(report);
}

absl::StatusOr<EvalResult> Trainer::RunEvaluation() {
  base::Check(eval_loader_ != nullptr, "there are data to evaluate on");
  return Evaluate(trained(), *eval_loader_, [this](double fraction) {
    observer_.OnStage("evaluating", fraction);
    return observer_.stop_request() == StopRequest::kNone;
  });
}

absl::Status Trainer::EvaluateNow() {
  const absl::Duration start = base::Clock::Real().Monotonic();
  auto result = RunEvaluation();
  if (!result.ok()) return result.status();
  state_.eval_step = state_.step;
  state_.eval_loss = result->loss;
  state_.eval_metrics = result->metrics;
  bool best = false;
  if (state_.step == 0) {
    state_.eval_loss_before = result->loss;
  } else {
    const double value = best_->ValueOf(*result);
    state_.evaluations_without_gain = best_->Gains(value, state_.best_metric)
                                          ? 0
                                          : state_.evaluations_without_gain + 1;
    best = best_->IsBetter(value, state_.best_metric);
    if (best) {
      state_.best_metric = value;
      state_.best_step = state_.step;
    }
  }
  const report::Evaluated report{state_.step,          result->loss,
                                 result->label_tokens, SecondsSince(start),
                                 result->metrics,      best};
  last_eval_ = *std::move(result);
  observer_.OnEval(report);
  return folder_->Append(report);
}

absl::Status Trainer::SaveNow() {
  base::Check(!state_.fingerprint.empty(), "a checkpoint names what it read");
  const absl::Duration start = base::Clock::Real().Monotonic();
  auto saved = ckpt::SaveCheckpoint(options_.out_dir, state_, Live());
  if (!saved.ok()) return saved.status();
  saved_step_ = state_.step;
  report::Checkpointed report{
      state_.step, saved->path.string(), saved->bytes, SecondsSince(start), {}};
  for (const auto& path : std::exchange(gone_, {})) {
    // A checkpoint set aside earlier whose step has now been saved anew is not
    // gone.
    if (path != saved->path) report.removed_paths.push_back(path.string());
  }
  if (const auto& limit = spec_.training.save_total_limit) {
    const int64_t best =
        spec_.training.load_best_model_at_end ? state_.best_step : 0;
    for (const auto& path :
         ckpt::Prune(options_.out_dir, *limit, state_.step, best)) {
      report.removed_paths.push_back(path.string());
    }
  }
  observer_.OnCheckpoint(report);
  return absl::OkStatus();
}

absl::StatusOr<RunResult> Trainer::Stop(StopRequest request) {
  RunResult result;
  result.stopped = request;
  result.steps = state_.step;
  if (request == StopRequest::kPreempt && state_.step > 0 &&
      saved_step_ != state_.step) {
    if (absl::Status s = SaveNow(); !s.ok()) return s;
  }
  result.checkpoint_step = saved_step_;
  result.seconds = state_.seconds;
  if (absl::Status s = UpdateManifest("STOPPED"); !s.ok()) return s;
  return result;
}

}  // namespace mpsd::train
