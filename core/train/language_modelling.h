// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/generate/generator.h"
#include "core/generate/prompt_text.h"
#include "core/model/decoder.h"
#include "core/train/task_pipeline.h"

namespace mpsd::train {

// CAUSAL_LM: a decoder learns to predict the next token. Its metric is
// perplexity.
class LanguageModelling : public TaskPipeline {
 public:
  explicit LanguageModelling(const spec::TrainSpec& spec) : spec_(spec) {}

  // The data do not change the model's config, so that LoadData may run
  // concurrently with LoadModel.
  bool data_change_model() const override { return false; }
  absl::StatusOr<TaskData> LoadData(const std::string& model_folder,
                                    spec::ModelConfig& config,
                                    Observer& observer) override;
  // Writes the tokenizer with the job's chat template and end token.
  absl::Status CompleteResult(
      const std::string& model_folder,
      const std::filesystem::path& folder) const override;
  absl::StatusOr<std::unique_ptr<model::Network>> LoadModel(
      const model::WeightSource& source, const spec::ModelConfig& config,
      const std::function<void(double)>& progress) override;
  StepInputs Inputs(std::span<const data::Batch> batches,
                    const device::Device& device) const override;
  BatchLoss Loss(const BatchInputs& inputs) const override;
  // The explicit step if spec::ChooseGradients allows it, else autograd.
  std::unique_ptr<GradientPath> MakeGradientPath(
      optim::Trainable& trainable, device::Device& device) const override;
  absl::StatusOr<std::vector<std::string>> AnswerSamplePrompts(
      device::Device& device,
      const std::function<bool(double)>& go_on) const override;
  metrics::Values Metrics(
      double loss, const metrics::Predictions& predictions) const override;
  std::vector<std::string> MetricNames() const override;

 private:
  // training.sample_prompts.
  struct Samples {
    generate::PromptText text;
    generate::Generation generation;
    std::vector<generate::Ids> prompts;
  };
  absl::Status ReadSamplePrompts(const std::string& model_folder,
                                 const spec::ModelConfig& config);

  std::optional<Samples> samples_;  // absent: there are none

 protected:
  const spec::TrainSpec& spec_;
  // Null until LoadModel; the run owns it.
  model::Decoder* decoder_ = nullptr;
};

}  // namespace mpsd::train
