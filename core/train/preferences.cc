// SPDX-License-Identifier: Apache-2.0
#include "core/train/preferences.h"

#include <ATen/ATen.h>

#include <iterator>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/sha256.h"
#include "core/base/status_macros.h"
#include "core/data/token_cache.h"
#include "core/train/resume.h"

namespace mpsd::train {

model::Answers AnswersOf(const BatchInputs& inputs) {
  const at::Tensor& ids = inputs.decoder.input_ids;
  return {inputs.labels, ids.size(0), ids.size(1), inputs.reference};
}

BatchLoss Preferences::Loss(const BatchInputs& inputs) const {
  const at::Tensor losses = model::TokenLosses(decoder_->Hidden(inputs.decoder),
                                               decoder_->head(), inputs.labels);
  const model::PairTerms terms =
      model::TermsOfPairs(spec_.preference, AnswersOf(inputs), losses.detach());
  // The value is that of the loss, the gradient that of its linear part.
  const at::Tensor linear = (losses * terms.weights).sum();
  return {linear + (terms.losses.sum() - linear.detach()), {}, terms.metrics};
}

metrics::Values Preferences::Metrics(
    double, const metrics::Predictions& predictions) const {
  metrics::Values values;
  const int64_t rows = predictions.rows();
  for (const std::string& name : MetricNames()) {
    double sum = 0;
    const auto column = static_cast<int64_t>(values.size());
    for (int64_t row = 0; row < rows; ++row) {
      sum += predictions.logits[row * predictions.outputs + column];
    }
    values.emplace_back(name, sum / static_cast<double>(rows));
  }
  return values;
}

std::vector<std::string> Preferences::MetricNames() const {
  return {std::begin(model::kPreferenceMetrics),
          std::end(model::kPreferenceMetrics)};
}

namespace {

// Identifies everything that the log-probabilities of `source` follow from.
absl::StatusOr<std::string> ReferenceKey(const Loaded& loaded,
                                         const data::Source& source) {
  ASSIGN_OR_RETURN(auto digests, loaded.digests->Get());
  ASSIGN_OR_RETURN(RunInputs inputs, InputsOf(loaded, digests));
  inputs.train = inputs.eval = inputs.eval_tokens = "";
  inputs.train_tokens = source.TokenDigest();
  spec::TrainSpec model;
  model.training.bf16 = loaded.spec->training.bf16;
  model.quantization_config = loaded.spec->quantization_config;
  return base::Sha256Hex(absl::StrCat("reference\n", MPSD_VERSION, "\n",
                                      loaded.context.torch_version, "\n",
                                      MakeFingerprint(model, inputs)));
}

absl::StatusOr<std::vector<float>> ComputeReference(
    const Loaded& loaded, const data::Source& source) {
  const spec::TrainingSpec& t = loaded.spec->training;
  const data::EvalLoader batches = loaded.shapes().EvalBatches(
      source, *loaded.data.train,
      t.auto_find_batch_size ? 1 : t.per_device_train_batch_size);
  Observer& observer = loaded.observer;
  ASSIGN_OR_RETURN(const auto found,
                   Predict(loaded.subject(), batches, [&](double fraction) {
                     observer.OnStage(
                         "computing the reference's log-probabilities",
                         fraction);
                     return observer.stop_request() == StopRequest::kNone;
                   }));
  std::vector<float> logps;
  for (int64_t row = 0; row < found.rows(); ++row) {
    const float* values = found.logits.data() + row * found.outputs;
    logps.push_back(values[model::kChosenLogps]);
    logps.push_back(values[model::kRejectedLogps]);
  }
  return logps;
}

absl::Status AddReferenceTo(const Loaded& loaded,
                            std::unique_ptr<data::Source>& source) {
  if (source == nullptr) return absl::OkStatus();
  const auto count = static_cast<size_t>(source->size() * source->sequences());
  const std::filesystem::path& folder = loaded.context.cache_dir;
  std::optional<data::TokenCache> cache;
  std::string key;
  std::optional<std::vector<float>> logps;
  if (!folder.empty()) {
    cache.emplace(folder / kTokenFolder);
    ASSIGN_OR_RETURN(key, ReferenceKey(loaded, *source));
    logps = cache->FindNumbers(key, count);
  }
  if (!logps) {
    ASSIGN_OR_RETURN(logps, ComputeReference(loaded, *source));
    base::CheckEqual(logps->size(), count, "log-probabilities and answers");
    absl::Status s;
    if (cache) s = cache->PutNumbers(key, *logps);
    if (!s.ok()) {
      loaded.observer.OnWarning(absl::StrCat(
          "the reference's log-probabilities are not cached: ", s.message()));
    }
  }
  source =
      std::make_unique<data::Referenced>(std::move(source), *std::move(logps));
  return absl::OkStatus();
}

}  // namespace

absl::Status AddReference(Loaded& loaded) {
  RETURN_IF_ERROR(AddReferenceTo(loaded, loaded.data.eval));
  return AddReferenceTo(loaded, loaded.data.train);
}

}  // namespace mpsd::train
