// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/data/class_labels.h"
#include "core/lora/lora.h"
#include "core/model/classifier.h"
#include "core/spec/model_config.h"
#include "core/spec/train_spec.h"
#include "core/train/observer.h"
#include "core/train/task_pipeline.h"

namespace mpsd::train {

// The data sets of a classification job, and the labels decided from them.
struct ClassData {
  TaskData sets;
  data::ClassLabels class_labels;
  // Files that the result's folder needs and the base model's folder lacks:
  // file name → contents.
  std::map<std::string, std::string> files;
};

// SEQ_CLS: reads tables of texts and tokenizes them. Sets config.pad_token_id
// if a decoder's config has none.
absl::StatusOr<ClassData> LoadTextClasses(const spec::TrainSpec& spec,
                                          const std::string& model_folder,
                                          spec::ModelConfig& config,
                                          Observer& observer);

// IMAGE_CLS: reads images and prepares them as the model's
// preprocessor_config.json says.
absl::StatusOr<ClassData> LoadImages(const spec::TrainSpec& spec,
                                     const std::string& model_folder,
                                     const spec::ModelConfig& config,
                                     Observer& observer);

// The labels as an adapter's folder keeps them.
lora::AdapterLabels AdapterLabelsOf(const data::ClassLabels& class_labels);

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
