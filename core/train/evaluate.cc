// SPDX-License-Identifier: Apache-2.0
#include "core/train/evaluate.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/device/block_mark.h"

namespace mpsd::train {

int64_t LabelsOf(const data::Batch& batch) {
  return batch.labels.empty() ? batch.rows : batch.label_tokens;
}

namespace {

// Collects losses and logits. Losses are summed in double on the host: MPS has
// no double, and a float loses digits over a long evaluation.
class Collector {
 public:
  Collector(const TrainingSubject& subject, bool with_loss)
      : subject_(subject), with_loss_(with_loss) {
    const data::ClassLabels* class_labels = subject.pipeline.class_labels();
    if (class_labels == nullptr) return;
    predictions_.problem = class_labels->problem;
    predictions_.outputs = class_labels->outputs();
  }

  void Add(const data::Batch& batch) {
    const device::StepScope scope;
    const profile::BlockMark mark("mpsd::evaluation");
    StepInputs inputs = subject_.pipeline.Inputs({&batch, 1}, subject_.device);
    base::CheckEqual(inputs.batches.size(), 1, "inputs of a batch");
    BatchLoss loss = subject_.pipeline.Loss(inputs.batches[0]);
    if (loss.metrics.defined()) {
      loss.logits = loss.metrics;
      predictions_.outputs = loss.metrics.size(1);
    }
    weight_ += batch.loss_weight;
    label_tokens_ += LabelsOf(batch);
    pending_.push_back({with_loss_ ? loss.sum : at::Tensor(), loss.logits,
                        std::move(inputs.host)});
    auto& p = predictions_;
    if (loss.logits.defined()) {
      p.truth.insert(p.truth.end(), batch.classes.begin(), batch.classes.end());
      p.targets.insert(p.targets.end(), batch.targets.begin(),
                       batch.targets.end());
    }
    subject_.device.Commit();
    if (pending_.size() == kBatchesAtOnce) ReadBack();
  }

  // Reads back all pending batches in one copy. Reading back each batch
  // separately would leave the device idle while the host waits.
  void ReadBack() {
    std::vector<at::Tensor> parts;
    for (const Pending& batch : pending_) {
      if (batch.sum.defined()) parts.push_back(batch.sum.reshape({1}));
      if (batch.logits.defined()) parts.push_back(batch.logits.flatten());
    }
    if (parts.empty()) return pending_.clear();
    const at::Tensor host = at::cat(parts).to(at::kCPU);
    const float* value = host.const_data_ptr<float>();
    auto& logits = predictions_.logits;
    for (const Pending& batch : pending_) {
      if (batch.sum.defined()) sum_ += *value++;
      if (!batch.logits.defined()) continue;
      logits.insert(logits.end(), value, value + batch.logits.numel());
      value += batch.logits.numel();
    }
    base::CheckEqual(value - host.const_data_ptr<float>(), host.numel(),
                     "numbers of all batches and of the copy");
    pending_.clear();
  }

  absl::StatusOr<EvalResult> Result() && {
    ReadBack();
    EvalResult result;
    result.loss = sum_ / (weight_ > 0 ? weight_ : 1);
    if (!std::isfinite(result.loss)) {
      return absl::DataLossError("the evaluation loss is not finite");
    }
    result.label_tokens = label_tokens_;
    result.metrics = subject_.pipeline.Metrics(result.loss, predictions_);
    result.predictions = std::move(predictions_);
    return result;
  }
  metrics::Predictions Predictions() && {
    ReadBack();
    return std::move(predictions_);
  }

 private:
  static constexpr size_t kBatchesAtOnce = 8;
  // Results on the device, and the host memory that their inputs are copied
  // from: the copies may still be running until ReadBack has waited.
  struct Pending {
    at::Tensor sum, logits;  // undefined: none
    std::vector<at::Tensor> host;
  };

  const TrainingSubject& subject_;
  const bool with_loss_;
  std::vector<Pending> pending_;
  double sum_ = 0, weight_ = 0;
  int64_t label_tokens_ = 0;
  metrics::Predictions predictions_;
};

absl::Status Collect(const TrainingSubject& subject,
                     const data::EvalLoader& batches,
                     const std::function<bool(double)>& go_on,
                     Collector& collector) {
  at::NoGradGuard no_grad;
  subject.trainable.set_training(false);
  subject.network.set_training(false);
  for (int64_t i = 0; i < batches.count(); ++i) {
    if (!go_on(static_cast<double>(i) / batches.count())) {
      return absl::CancelledError("evaluation stopped");
    }
    ASSIGN_OR_RETURN(const auto batch, batches.Load(i));
    collector.Add(batch);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<EvalResult> Evaluate(const TrainingSubject& subject,
                                    const data::EvalLoader& batches,
                                    const std::function<bool(double)>& go_on) {
  Collector collector(subject, /*with_loss=*/true);
  RETURN_IF_ERROR(Collect(subject, batches, go_on, collector));
  return std::move(collector).Result();
}

absl::StatusOr<metrics::Predictions> Predict(
    const TrainingSubject& subject, const data::EvalLoader& batches,
    const std::function<bool(double)>& go_on) {
  Collector collector(subject, /*with_loss=*/false);
  RETURN_IF_ERROR(Collect(subject, batches, go_on, collector));
  return std::move(collector).Predictions();
}

absl::StatusOr<BestModel> BestModel::Create(
    const spec::TrainingSpec& training,
    const std::vector<std::string>& metrics) {
  BestModel best;
  std::string name = training.metric_for_best_model;
  if (name.starts_with("eval_")) name = name.substr(5);
  if (name.empty()) name = "loss";
  if (name != "loss" &&
      std::find(metrics.begin(), metrics.end(), name) == metrics.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "training.metric_for_best_model: there is no metric \"",
        training.metric_for_best_model, "\" in this job; there are loss, ",
        absl::StrJoin(metrics, ", ")));
  }
  best.metric_ = name;
  best.greater_is_better_ =
      training.greater_is_better.value_or(metrics::GreaterIsBetter(name));
  best.threshold_ = training.early_stopping_threshold;
  return best;
}

double BestModel::ValueOf(const EvalResult& result) const {
  if (metric_ == "loss") return result.loss;
  for (const auto& [name, value] : result.metrics) {
    if (name == metric_) return value;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

// A metric may be NaN (a correlation of constants). NaN is never better: no
// comparison could replace it as the best.
bool BestModel::IsBetter(double value,
                         const std::optional<double>& best) const {
  if (std::isnan(value)) return false;
  if (!best) return true;
  return greater_is_better_ ? value > *best : value < *best;
}

// The first evaluation uses up no patience, even if it is NaN; the Trainer then
// has ±∞ as its best, which a later NaN does not exceed.
bool BestModel::Gains(double value, const std::optional<double>& best,
                      bool first) const {
  return first || (IsBetter(value, best) &&
                   (!best || std::abs(value - *best) > threshold_));
}

}  // namespace mpsd::train
