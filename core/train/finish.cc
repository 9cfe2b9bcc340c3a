// SPDX-License-Identifier: Apache-2.0
#include "core/train/finish.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/ckpt/checkpoint.h"
#include "core/full/model_card.h"
#include "core/report/metrics.h"
#include "core/report/report.h"
#include "core/train/model_card.h"
#include "core/train/stages.h"

namespace mpsd::train {
namespace {

using Json = nlohmann::ordered_json;

std::vector<double> Softmax(const float* logits, int64_t count) {
  base::CheckLess(0, count, "scores of a row");
  const double highest = *std::max_element(logits, logits + count);
  std::vector<double> scores(logits, logits + count);
  double sum = 0;
  for (double& s : scores) sum += s = std::exp(s - highest);
  for (double& s : scores) s /= sum;
  return scores;
}

std::vector<double> Sigmoids(const float* logits, int64_t count) {
  std::vector<double> scores(logits, logits + count);
  for (double& s : scores) s = 1 / (1 + std::exp(-s));
  return scores;
}

Json Named(const std::vector<double>& scores,
           const data::ClassLabels& class_labels) {
  base::CheckAtMost(scores.size(), class_labels.names.size(),
                    "scores and names");
  Json named = Json::object();
  for (size_t i = 0; i < scores.size(); ++i) {
    named[class_labels.names[i]] = scores[i];
  }
  return named;
}

// One line of predictions.jsonl.
Json RowOf(const float* logits, const data::ClassLabels& class_labels) {
  const int64_t count = class_labels.outputs();
  if (class_labels.problem == spec::ProblemType::kRegression) {
    if (count == 1) return {{"prediction", logits[0]}};
    return {{"prediction", std::vector<float>(logits, logits + count)}};
  }
  if (class_labels.problem == spec::ProblemType::kMultiLabel) {
    const std::vector<double> scores = Sigmoids(logits, count);
    Json chosen = Json::array();
    for (int64_t i = 0; i < count; ++i) {
      if (logits[i] > 0) chosen.push_back(class_labels.names[i]);
    }
    return {{"prediction", chosen}, {"scores", Named(scores, class_labels)}};
  }
  const int64_t best = std::max_element(logits, logits + count) - logits;
  return {{"prediction", class_labels.names[best]},
          {"scores", Named(Softmax(logits, count), class_labels)}};
}

std::string Cell(const Json& prediction) {
  if (prediction.is_string()) return prediction.get<std::string>();
  if (!prediction.is_array()) return prediction.dump();
  std::string cell;
  for (const Json& item : prediction) {
    if (!cell.empty()) cell += ",";
    cell += Cell(item);
  }
  return cell;
}

}  // namespace

std::string ConfusionMatrixJson(const metrics::Predictions& predictions,
                                const data::ClassLabels& class_labels) {
  if (class_labels.problem != spec::ProblemType::kSingleLabel ||
      predictions.rows() == 0 || class_labels.names.size() > kMaxMatrixLabels) {
    return "";
  }
  const std::vector<int64_t> counts = metrics::ConfusionMatrix(predictions);
  const size_t n = class_labels.names.size();
  base::CheckEqual(counts.size(), n * n, "cells of a confusion matrix");
  Json matrix = Json::array();
  for (size_t i = 0; i < n; ++i) {
    matrix.push_back(std::vector<int64_t>(counts.begin() + i * n,
                                          counts.begin() + (i + 1) * n));
  }
  return Json{{"labels", class_labels.names}, {"matrix", matrix}}.dump(
      -1, ' ', false, Json::error_handler_t::replace);
}

absl::Status WritePredictions(const std::filesystem::path& folder,
                              const metrics::Predictions& predictions,
                              const data::ClassLabels& class_labels,
                              const data::LabelPlace& name_of) {
  base::CheckEqual(predictions.outputs, class_labels.outputs(),
                   "outputs of the model and of its labels");
  std::string jsonl, tsv = "index\tprediction\n";
  for (int64_t i = 0; i < predictions.rows(); ++i) {
    const std::string name = name_of(i);
    const float* logits = &predictions.logits[i * predictions.outputs];
    if (!std::all_of(logits, logits + predictions.outputs,
                     [](float logit) { return std::isfinite(logit); })) {
      return absl::DataLossError(absl::StrCat(
          "predict: the model's outputs for row ", i, " (from 0)",
          name.empty() ? "" : ", " + base::Quotable(name),
          " are not finite, so it has no label; remove the row, or train with "
          "a smaller learning_rate or without bf16"));
    }
    Json row = {{"index", i}};
    if (!name.empty()) row["image"] = name;
    row.update(RowOf(logits, class_labels));
    jsonl += row.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    absl::StrAppend(&tsv, i, "\t", Cell(row["prediction"]), "\n");
  }
  RETURN_IF_ERROR(base::WriteFileAtomic(folder / "predictions.jsonl", jsonl));
  return base::WriteFileAtomic(folder / "predictions.tsv", tsv);
}

namespace {

bool TrainsAdapter(const Prepared& run) {
  return run.loaded.spec->fine_tune_type == spec::FineTuneType::kLora;
}

std::filesystem::path OutputPath(const Prepared& run) {
  return run.folder->path() / (TrainsAdapter(run) ? "adapter" : "model");
}

// Loads the best checkpoint if the job asks for it and it is not the last
// step's. If it cannot be read, the weights stay those of the last step.
absl::StatusOr<bool> GoBackToBest(Prepared& run) {
  const ckpt::TrainerState& state = run.state;
  run.manifest.result_step = state.step;
  if (!run.loaded.spec->training.load_best_model_at_end ||
      state.best_step == 0 || state.best_step == state.step) {
    return false;
  }
  const std::filesystem::path best =
      ckpt::CheckpointPath(run.loaded.context.out_dir, state.best_step);
  absl::Status s = ckpt::CheckTensors(best, /*with_optimizer=*/false);
  if (s.ok()) s = run.loaded.trainable->LoadCheckpoint(best);
  if (absl::IsInvalidArgument(s) || absl::IsNotFound(s)) {
    run.loaded.observer.OnWarning(absl::StrCat(
        "the best checkpoint, step ", state.best_step, ", cannot be read (",
        s.message(), "): the result is that of the last step, ", state.step));
    return false;
  }
  if (!s.ok()) return s;
  run.manifest.result_step = state.best_step;
  return true;
}

// Makes `last_eval` an evaluation of the exported weights, since a classifier's
// predictions are written from it. Evaluates again after a return to the best
// checkpoint and, for predictions, if this process has not evaluated.
absl::Status TakeBest(Prepared& run, std::optional<EvalResult>& last_eval) {
  ASSIGN_OR_RETURN(const bool went_back, GoBackToBest(run));
  if (went_back) last_eval.reset();
  const bool wants_predictions = run.loaded.pipeline->class_labels() != nullptr;
  if (!run.eval_loader || last_eval || (!went_back && !wants_predictions)) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(auto result, run.EvaluateWeights());
  run.state.eval_loss = result.loss;
  run.state.eval_metrics = result.metrics;
  last_eval = std::move(result);
  return absl::OkStatus();
}

// Writes a classifier's files; `matrix` is its confusion matrix, "" for none.
absl::Status WritePredictionFiles(const Prepared& run,
                                  const std::string& matrix) {
  const Loaded& loaded = run.loaded;
  if (!matrix.empty()) {
    RETURN_IF_ERROR(base::WriteFileAtomic(
        run.folder->path() / "confusion_matrix.json", matrix + "\n"));
  }
  const data::Source* source = loaded.data.predict.get();
  if (loaded.pipeline->class_labels() == nullptr || source == nullptr) {
    return absl::OkStatus();
  }
  const data::EvalLoader batches = loaded.shapes().EvalBatches(
      *source, *loaded.data.train, run.micro_batch_rows);
  ASSIGN_OR_RETURN(
      auto predictions,
      Predict(loaded.subject(), batches, [&loaded](double fraction) {
        loaded.observer.OnStage(report::kStagePredicting, fraction);
        return loaded.observer.stop_request() == StopRequest::kNone;
      }));
  return WritePredictions(run.folder->path(), predictions,
                          *loaded.pipeline->class_labels(),
                          [source](int64_t row) { return source->name(row); });
}

absl::Status Export(const Prepared& run, const RunResult& result) {
  const Loaded& loaded = run.loaded;
  loaded.observer.OnStage(report::kStageSaving, 0);
  for (const optim::Parameter& p :
       loaded.trainable->parameters().parameters()) {
    if (!at::isfinite(p.value.detach()).all().item<bool>()) {
      return absl::DataLossError(
          absl::StrCat("the trained ", p.name, " is not finite"));
    }
    base::CountWork();
  }
  ASSIGN_OR_RETURN(auto staged, base::StagedFolder::Create(OutputPath(run)));
  RETURN_IF_ERROR(loaded.trainable->SaveResult(staged.staging()));
  RETURN_IF_ERROR(
      loaded.pipeline->CompleteResult(loaded.model_folder, staged.staging()));
  RETURN_IF_ERROR(base::WriteFileAtomic(staged.staging() / full::kModelCard,
                                        ModelCardOf(run, result)));
  return staged.Commit();
}

}  // namespace

absl::StatusOr<RunResult> Finish(Prepared& run,
                                 std::optional<EvalResult> last_eval) {
  const ckpt::TrainerState& state = run.state;
  RunResult result;
  absl::Status s = TakeBest(run, last_eval);
  if (s.ok()) {
    const data::ClassLabels* class_labels = run.loaded.pipeline->class_labels();
    if (last_eval && class_labels != nullptr) {
      result.confusion_matrix =
          ConfusionMatrixJson(last_eval->predictions, *class_labels);
    }
    s = WritePredictionFiles(run, result.confusion_matrix);
  }
  if (s.ok() && run.SampleDue(/*at_end=*/true)) s = run.Sample();
  if (absl::IsCancelled(s)) {
    return FinishStopped(run, run.loaded.observer.stop_request());
  }
  if (!s.ok()) return s;
  result.steps = state.step;
  result.checkpoint_step = run.saved_step;
  result.output_path = OutputPath(run).string();
  result.output_kind = TrainsAdapter(run) ? report::OutputKind::kAdapter
                                          : report::OutputKind::kModel;
  if (state.step > 0) result.train_loss = state.loss_sum / state.step;
  result.eval_loss_before = state.eval_loss_before;
  if (state.eval_step > 0) {
    result.eval_loss_after = state.eval_loss;
    result.metrics = state.eval_metrics;
  }
  result.seconds = state.seconds;
  RETURN_IF_ERROR(Export(run, result));
  RETURN_IF_ERROR(run.UpdateManifest("SUCCEEDED"));
  return result;
}

absl::StatusOr<RunResult> FinishStopped(Prepared& run, StopRequest request) {
  RunResult result;
  result.stopped = request;
  result.steps = run.state.step;
  result.checkpoint_step = run.saved_step;
  result.seconds = run.state.seconds;
  RETURN_IF_ERROR(run.UpdateManifest("STOPPED"));
  return result;
}

}  // namespace mpsd::train
