// SPDX-License-Identifier: Apache-2.0
#include "core/train/trainer.h"

#include <ATen/ATen.h>

#include <cmath>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/clock.h"
#include "core/device/platform.h"
#include "core/lora/peft_folder.h"

namespace mpsd::train {
namespace {

double SecondsSince(absl::Duration start) {
  return absl::ToDoubleSeconds(base::Clock::Real().Monotonic() - start);
}

}  // namespace

Trainer::Trainer(spec::TrainSpec spec, TrainerOptions options,
                 Observer& observer)
    : spec_(std::move(spec)),
      options_(std::move(options)),
      observer_(observer) {}

Trainer::~Trainer() = default;

absl::StatusOr<RunResult> Trainer::Run() {
  using Part = absl::Status (Trainer::*)();
  constexpr Part kParts[] = {
      &Trainer::OpenDevice,
      &Trainer::ReadModelFolder,
      // Before the weights: what is wrong with the data is said at once.
      &Trainer::LoadData,
      &Trainer::LoadModel,
      // After this line the base is frozen; only the adapter's parameters
      // change.
      &Trainer::AttachAdapter,
      &Trainer::Resume,
      &Trainer::OpenRunFolder,
  };
  for (const Part part : kParts) {
    if (absl::Status s = (this->*part)(); !s.ok()) return s;
  }
  return Loop();
}

absl::StatusOr<RunResult> Trainer::Loop() {
  while (true) {
    // Step 0 is evaluated too: the loss before training. A stop between a step
    // and its evaluation makes the next attempt begin with the evaluation.
    if (eval_due()) {
      absl::Status s = EvaluateNow();
      if (absl::IsCancelled(s)) return Stop(observer_.stop_request());
      if (!s.ok()) return s;
    }
    if (save_due()) {
      if (absl::Status s = SaveNow(); !s.ok()) return s;
    }
    if (finished()) return Finish();
    if (const StopRequest stop = observer_.stop_request();
        stop != StopRequest::kNone) {
      return Stop(stop);
    }
    if (absl::Status s = TrainStep(); !s.ok()) return s;
  }
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
                       state_.best_eval_loss.has_value();
  const int64_t every = spec_.training.save_steps;
  return (every > 0 && state_.step % every == 0) || is_best || finished();
}

absl::Status Trainer::TrainStep() {
  const absl::Duration start = base::Clock::Real().Monotonic();
  auto batches = loader_->NextStep();
  if (!batches.ok()) return batches.status();
  const double learning_rate = schedule_->LearningRate(state_.step);
  auto result = stepper_->Run(*batches, learning_rate);
  if (!result.ok()) return result.status();
  StepReport report;
  for (const data::Batch& batch : *batches) {
    report.tokens += batch.tokens;
    report.padded_tokens += batch.rows * batch.length;
    report.label_tokens += batch.label_tokens;
  }
  report.step = ++state_.step;
  report.total_steps = state_.total_steps;
  report.epoch = loader_->epoch_fraction();
  report.loss = result->loss;
  report.learning_rate = learning_rate;
  report.grad_norm = result->grad_norm;
  report.seconds = SecondsSince(start);
  report.device = device_->name();
  report.memory = device_->GetMemory();
  report.footprint_bytes = device::ProcessFootprintBytes();
  const data::Cursor cursor = loader_->cursor();
  state_.epoch = cursor.epoch;
  state_.step_in_epoch = cursor.step_in_epoch;
  state_.loss_sum += report.loss;
  state_.tokens_seen += report.tokens;
  state_.seconds += report.seconds;
  observer_.OnStep(report);
  return folder_->Append(report);
}

absl::Status Trainer::EvaluateNow() {
  const absl::Duration start = base::Clock::Real().Monotonic();
  auto go_on = [this](double fraction) {
    observer_.OnStage("evaluating", fraction);
    return observer_.stop_request() == StopRequest::kNone;
  };
  auto result = Evaluate(*model_, *adapter_, *device_, *eval_loader_, go_on);
  if (!result.ok()) return result.status();
  state_.eval_step = state_.step;
  state_.eval_loss = result->loss;
  if (state_.step == 0) state_.eval_loss_before = result->loss;
  if (state_.step > 0) {
    if (!state_.best_eval_loss || result->loss < *state_.best_eval_loss) {
      state_.best_eval_loss = result->loss;
      state_.best_step = state_.step;
      state_.evaluations_without_gain = 0;
    } else {
      ++state_.evaluations_without_gain;
    }
  }
  const EvalReport report{state_.step, result->loss, result->label_tokens,
                          SecondsSince(start)};
  observer_.OnEval(report);
  return folder_->Append(report);
}

absl::Status Trainer::SaveNow() {
  const absl::Duration start = base::Clock::Real().Monotonic();
  auto saved = ckpt::SaveCheckpoint(options_.out_dir, state_, Live(),
                                    spec_.lora, spec_.model);
  if (!saved.ok()) return saved.status();
  saved_step_ = state_.step;
  std::vector<std::filesystem::path> removed;
  if (spec_.training.save_total_limit) {
    const int64_t keep =
        spec_.training.load_best_model_at_end ? state_.best_step : -1;
    removed =
        ckpt::Prune(options_.out_dir, *spec_.training.save_total_limit, keep);
  }
  CheckpointReport report{
      state_.step, saved->path, saved->bytes, SecondsSince(start), {}};
  if (!removed.empty()) report.removed = removed.front();
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

absl::StatusOr<RunResult> Trainer::Finish() {
  if (spec_.training.load_best_model_at_end && state_.best_step > 0 &&
      state_.best_step != state_.step) {
    absl::Status s = lora::LoadPeftWeights(
        ckpt::CheckpointPath(options_.out_dir, state_.best_step),
        adapter_->parameters());
    if (!s.ok()) return s;
    state_.eval_loss = state_.best_eval_loss;
  }
  if (absl::Status s = ExportAdapter(); !s.ok()) return s;
  RunResult result;
  result.steps = state_.step;
  result.checkpoint_step = saved_step_;
  result.adapter_path = folder_->adapter_path();
  if (state_.step > 0) result.train_loss = state_.loss_sum / state_.step;
  result.eval_loss_before = state_.eval_loss_before;
  if (state_.eval_step > 0) result.eval_loss_after = state_.eval_loss;
  result.seconds = state_.seconds;
  if (absl::Status s = UpdateManifest("SUCCEEDED"); !s.ok()) return s;
  return result;
}

absl::Status Trainer::ExportAdapter() {
  for (const optim::Parameter& p : adapter_->parameters().parameters()) {
    if (!at::isfinite(p.value.detach()).all().item<bool>()) {
      return absl::DataLossError(
          absl::StrCat("the trained ", p.name, " is not finite"));
    }
  }
  auto staged = base::StagedFolder::Create(folder_->adapter_path());
  if (!staged.ok()) return staged.status();
  absl::Status s = lora::SavePeftFolder(staged->staging(), spec_.lora,
                                        spec_.model, adapter_->parameters());
  return s.ok() ? staged->Commit() : s;
}

}  // namespace mpsd::train
