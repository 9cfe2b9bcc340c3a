// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_TRAIN_CLASSIFICATION_H_
#define MPSD_CORE_TRAIN_CLASSIFICATION_H_

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/model/classifier.h"
#include "core/train/task_pipeline.h"

namespace mpsd::train {

// SEQ_CLS and IMAGE_CLS: predicts one or several labels, or a number, for a
// text, a pair of texts or an image.
class Classification : public TaskPipeline {
 public:
  explicit Classification(const spec::TrainSpec& spec) : spec_(spec) {}

  absl::StatusOr<TaskData> LoadData(const std::string& model_folder,
                                    spec::ModelConfig& config,
                                    Observer& observer) override;
  absl::StatusOr<std::unique_ptr<model::Network>> LoadModel(
      const model::WeightSource& source, const spec::ModelConfig& config,
      const std::function<void(double)>& progress) override;
  // BatchLoss::sum is undefined for a batch without labels.
  StepInputs Inputs(std::span<const data::Batch> batches,
                    const device::Device& device) const override;
  BatchLoss Loss(const BatchInputs& inputs) const override;
  metrics::Values Metrics(
      double loss, const metrics::Predictions& predictions) const override;
  std::vector<std::string> MetricNames() const override;
  const data::ClassLabels* class_labels() const override {
    return &class_labels_;
  }
  std::map<std::string, std::string> ResultFiles() const override {
    return files_;
  }

 private:
  const spec::TrainSpec& spec_;
  data::ClassLabels class_labels_;
  std::map<std::string, std::string> files_;
  // Null until LoadModel; the run owns it.
  model::Classifier* classifier_ = nullptr;
  at::Tensor class_weights_;  // undefined: all 1
};

}  // namespace mpsd::train

#endif  // MPSD_CORE_TRAIN_CLASSIFICATION_H_
