// SPDX-License-Identifier: Apache-2.0
#include "core/train/classification.h"

#include <ATen/ATen.h>

#include <utility>

#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/model/class_loss.h"
#include "core/train/class_data.h"
#include "core/train/split_and_limit.h"

namespace mpsd::train {

absl::StatusOr<TaskData> Classification::LoadData(
    const std::string& model_folder, spec::ModelConfig& config,
    Observer& observer) {
  ASSIGN_OR_RETURN(
      auto data, spec_.task == spec::Task::kImageCls
                     ? LoadImages(spec_, model_folder, config, observer)
                     : LoadTextClasses(spec_, model_folder, config, observer));
  class_labels_ = std::move(data.class_labels);
  files_ = std::move(data.files);
  config.num_labels = class_labels_.outputs();
  RETURN_IF_ERROR(SplitAndLimit(spec_, data.sets));
  return std::move(data.sets);
}

absl::StatusOr<std::unique_ptr<model::Network>> Classification::LoadModel(
    const model::WeightSource& source, const spec::ModelConfig& config,
    const std::function<void(double)>& progress) {
  ASSIGN_OR_RETURN(auto loaded,
                   model::Classifier::Load(source, config, progress));
  classifier_ = loaded.get();
  if (!class_labels_.weights.empty()) {
    class_weights_ = at::tensor(class_labels_.weights, at::kDouble)
                         .to(at::kFloat)
                         .to(source.device);
  }
  return std::unique_ptr<model::Network>(std::move(loaded));
}

StepInputs Classification::Inputs(std::span<const data::Batch> batches,
                                  const device::Device& device) const {
  return ClassInputs(batches, class_labels_.outputs(), device);
}

BatchLoss Classification::Loss(const BatchInputs& inputs) const {
  base::Check(classifier_ != nullptr, "LoadModel comes before Loss");
  BatchLoss loss;
  const at::Tensor logits = classifier_->Logits(inputs.classifier);
  if (inputs.targets.defined()) {
    loss.sum = model::SumClassLoss(class_labels_.problem, logits,
                                   inputs.targets, class_weights_);
  }
  loss.logits = logits.detach().to(at::kFloat);
  return loss;
}

metrics::Values Classification::Metrics(
    double, const metrics::Predictions& predictions) const {
  return metrics::Compute(predictions, spec_.dataset.task_name);
}

std::vector<std::string> Classification::MetricNames() const {
  return metrics::MetricNames(class_labels_.problem, class_labels_.outputs(),
                              spec_.dataset.task_name);
}

}  // namespace mpsd::train
