// SPDX-License-Identifier: Apache-2.0
// The parts of Trainer::Run that come after the last step.
#include <ATen/ATen.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/base/work_count.h"
#include "core/train/results.h"
#include "core/train/trainer.h"

namespace mpsd::train {

std::filesystem::path Trainer::output_path() const {
  const bool adapter = spec_.fine_tune_type == spec::FineTuneType::kLora;
  return folder_->path() / (adapter ? "adapter" : "model");
}

absl::StatusOr<RunResult> Trainer::Finish() {
  absl::Status s = TakeBest();
  if (s.ok()) s = WritePredictionFiles();
  if (absl::IsCancelled(s)) return Stop(observer_.stop_request());
  if (s.ok()) s = Export();
  if (!s.ok()) return s;
  RunResult result;
  result.steps = state_.step;
  result.checkpoint_step = saved_step_;
  result.output_path = output_path().string();
  result.output_kind = spec_.fine_tune_type == spec::FineTuneType::kLora
                           ? report::OutputKind::kAdapter
                           : report::OutputKind::kModel;
  if (state_.step > 0) result.train_loss = state_.loss_sum / state_.step;
  result.eval_loss_before = state_.eval_loss_before;
  if (state_.eval_step > 0) {
    result.eval_loss_after = state_.eval_loss;
    result.metrics = state_.eval_metrics;
  }
  if (last_eval_ && task_->labels() != nullptr) {
    result.confusion_matrix =
        ConfusionMatrixJson(last_eval_->predictions, *task_->labels());
  }
  result.seconds = state_.seconds;
  if (s = UpdateManifest("SUCCEEDED"); !s.ok()) return s;
  return result;
}

// Loads the best checkpoint if the job asks for it and it is not the last
// step's. If it cannot be read, the weights stay those of the last step.
absl::StatusOr<bool> Trainer::GoBackToBest() {
  manifest_.result_step = state_.step;
  if (!spec_.training.load_best_model_at_end || state_.best_step == 0 ||
      state_.best_step == state_.step) {
    return false;
  }
  const absl::Status s = trainable_->LoadCheckpoint(
      ckpt::CheckpointPath(options_.out_dir, state_.best_step));
  if (absl::IsInvalidArgument(s) || absl::IsNotFound(s)) {
    observer_.OnWarning(absl::StrCat(
        "the best checkpoint, step ", state_.best_step, ", cannot be read (",
        s.message(), "): the result is that of the last step, ", state_.step));
    return false;
  }
  if (!s.ok()) return s;
  manifest_.result_step = state_.best_step;
  last_eval_.reset();
  return true;
}

// Makes last_eval_ an evaluation of the weights that are exported, since a
// classifier's predictions are written from it. Evaluates anew after a return
// to the best checkpoint and, for predictions, where this process has not
// evaluated.
absl::Status Trainer::TakeBest() {
  const absl::StatusOr<bool> went_back = GoBackToBest();
  if (!went_back.ok()) return went_back.status();
  const bool wants_predictions = task_->labels() != nullptr;
  if (eval_loader_ == nullptr || last_eval_ ||
      (!*went_back && !wants_predictions)) {
    return absl::OkStatus();
  }
  auto result = RunEvaluation();
  if (!result.ok()) return result.status();
  state_.eval_loss = result->loss;
  state_.eval_metrics = result->metrics;
  last_eval_ = *std::move(result);
  return absl::OkStatus();
}

absl::Status Trainer::WritePredictionFiles() {
  const data::Labels* labels = task_->labels();
  if (labels == nullptr) return absl::OkStatus();
  if (last_eval_) {
    const std::string matrix =
        ConfusionMatrixJson(last_eval_->predictions, *labels);
    if (!matrix.empty()) {
      absl::Status s = base::WriteFileAtomic(
          folder_->path() / "confusion_matrix.json", matrix + "\n");
      if (!s.ok()) return s;
    }
  }
  if (data_.predict == nullptr) return absl::OkStatus();
  const data::EvalLoader batches = EvalBatches(*data_.predict);
  auto predictions = Predict(trained(), batches, [this](double fraction) {
    observer_.OnStage("predicting", fraction);
    return observer_.stop_request() == StopRequest::kNone;
  });
  if (!predictions.ok()) return predictions.status();
  return WritePredictions(folder_->path(), *predictions, *labels);
}

absl::Status Trainer::Export() {
  for (const optim::Parameter& p : trainable_->parameters().parameters()) {
    if (!at::isfinite(p.value.detach()).all().item<bool>()) {
      return absl::DataLossError(
          absl::StrCat("the trained ", p.name, " is not finite"));
    }
    base::CountWork();
  }
  auto staged = base::StagedFolder::Create(output_path());
  if (!staged.ok()) return staged.status();
  absl::Status s = trainable_->SaveResult(staged->staging());
  if (s.ok()) s = task_->CompleteResult(model_folder_, staged->staging());
  return s.ok() ? staged->Commit() : s;
}

}  // namespace mpsd::train
