// SPDX-License-Identifier: Apache-2.0
#include "core/train/evaluate.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>

#include "core/device/platform.h"

namespace mpsd::train {
namespace {

// Collects what batches say; sums are added in double on the host: MPS has no
// double, and a float loses digits over a long evaluation.
class Collector {
 public:
  Collector(const Trained& trained, bool with_loss)
      : trained_(trained), with_loss_(with_loss) {
    const data::Labels* labels = trained.task.labels();
    if (labels == nullptr) return;
    predictions_.problem = labels->problem;
    predictions_.outputs = labels->outputs();
  }

  void Add(const data::Batch& batch) {
    const device::StepScope scope;
    const BatchLoss loss =
        trained_.task.Loss(batch, trained_.device.torch_device());
    weight_ += batch.loss_weight;
    label_tokens_ += batch.label_tokens;
    if (with_loss_ && loss.sum.defined()) {
      sum_ += loss.sum.to(at::kCPU).item<float>();
    }
    if (!loss.logits.defined()) return;
    const at::Tensor logits = loss.logits.to(at::kCPU).contiguous();
    const float* values = logits.const_data_ptr<float>();
    auto& p = predictions_;
    p.logits.insert(p.logits.end(), values, values + logits.numel());
    p.truth.insert(p.truth.end(), batch.classes.begin(), batch.classes.end());
    p.targets.insert(p.targets.end(), batch.targets.begin(),
                     batch.targets.end());
  }

  absl::StatusOr<EvalResult> Result() && {
    EvalResult result;
    result.loss = sum_ / (weight_ > 0 ? weight_ : 1);
    if (!std::isfinite(result.loss)) {
      return absl::DataLossError("the evaluation loss is not finite");
    }
    result.label_tokens = label_tokens_;
    result.metrics = trained_.task.Metrics(result.loss, predictions_);
    result.predictions = std::move(predictions_);
    return result;
  }
  metrics::Predictions Predictions() && { return std::move(predictions_); }

 private:
  const Trained& trained_;
  const bool with_loss_;
  double sum_ = 0, weight_ = 0;
  int64_t label_tokens_ = 0;
  metrics::Predictions predictions_;
};

absl::Status Collect(const Trained& trained, const data::EvalLoader& batches,
                     const std::function<bool(double)>& go_on,
                     Collector& collector) {
  at::NoGradGuard no_grad;
  trained.trainable.set_training(false);
  trained.network.set_training(false);
  for (int64_t i = 0; i < batches.count(); ++i) {
    if (!go_on(static_cast<double>(i) / batches.count())) {
      return absl::CancelledError("evaluation stopped");
    }
    const auto batch = batches.Load(i);
    if (!batch.ok()) return batch.status();
    collector.Add(*batch);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<EvalResult> Evaluate(const Trained& trained,
                                    const data::EvalLoader& batches,
                                    const std::function<bool(double)>& go_on) {
  Collector collector(trained, /*with_loss=*/true);
  absl::Status s = Collect(trained, batches, go_on, collector);
  if (!s.ok()) return s;
  return std::move(collector).Result();
}

absl::StatusOr<metrics::Predictions> Predict(
    const Trained& trained, const data::EvalLoader& batches,
    const std::function<bool(double)>& go_on) {
  Collector collector(trained, /*with_loss=*/false);
  absl::Status s = Collect(trained, batches, go_on, collector);
  if (!s.ok()) return s;
  return std::move(collector).Predictions();
}

}  // namespace mpsd::train
