// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/model/network.h"
#include "core/optim/parameters.h"
#include "core/spec/train_spec.h"

namespace mpsd::full {

// Trains a model's own weights: all of them, or its head. They become fp32
// parameters; a network that computes in bf16 gets copies in bf16, which each
// optimizer step casts together. The destructor leaves the trained weights in
// the network.
class FullModel : public optim::Trainable {
 public:
  struct Options {
    bool head_only = false;
    spec::Task task = spec::Task::kCausalLm;
    // The folder from which the result gets its config.json and tokenizer
    // files.
    std::filesystem::path model_folder;
    // Label names for the result's config.json, by id; empty for language
    // models.
    std::vector<std::string> label_names;
    std::string problem_type;
    // Written into the result if model_folder has no file of the same name.
    std::map<std::string, std::string> files;
  };

  // `network` must outlive it.
  static absl::StatusOr<std::unique_ptr<FullModel>> Attach(
      model::Network& network, Options options, at::Device device);

  // Parameters are named as in the model's file.
  optim::ParameterSet& parameters() override { return *parameters_; }
  void set_training(bool) override {}

  // Writes model.safetensors with the trained weights, and config.json.
  absl::Status SaveCheckpoint(
      const std::filesystem::path& folder) const override;
  absl::Status CheckCheckpoint(
      const std::filesystem::path& folder) const override;
  absl::Status LoadCheckpoint(const std::filesystem::path& folder) override;

  // Writes a folder for Transformers' from_pretrained: every weight in the
  // network's dtype, config.json with the head and its labels, and the
  // tokenizer or image processor.
  absl::Status SaveResult(const std::filesystem::path& folder) const override;

 private:
  FullModel(model::Network& network, Options options)
      : network_(network), options_(std::move(options)) {}

  model::Network& network_;
  const Options options_;
  std::unique_ptr<optim::ParameterSet> parameters_;
};

}  // namespace mpsd::full
