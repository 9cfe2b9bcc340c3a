// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_LORA_ADAPTED_MODEL_H_
#define MPSD_CORE_LORA_ADAPTED_MODEL_H_

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/spec/model_config.h"
#include "core/spec/targets.h"
#include "core/spec/train_spec.h"
#include "core/ckpt/safetensors.h"
#include "core/ckpt/weights.h"

namespace mpsd::merge {

// A low-rank change of a weight, fp32.
struct LowRank {
  at::Tensor a, b;  // [r, in], [out, r]
  double scaling = 1;
};

// A model folder and an adapter that fits it.
class AdaptedModel {
 public:
  // config().num_labels is set if the model or the adapter classifies. Fails
  // with the errors of Merge.
  static absl::StatusOr<AdaptedModel> Open(
      const std::filesystem::path& model, const std::filesystem::path& adapter);

  const std::filesystem::path& model() const { return model_; }
  const spec::ModelConfig& config() const { return config_; }
  spec::Task task() const { return task_; }
  const tensorfile::Weights& weights() const { return *weights_; }
  // Whether the file has a head and no embedding: the head is then both
  // (TiedHead::kHead).
  bool head_is_embedding() const { return head_is_embedding_; }
  // The adapted modules, in the order of the network.
  const std::vector<spec::TargetMatch>& targets() const { return targets_; }

  // The change of a module, by its full name. InvalidArgument if the adapter's
  // file lacks its matrices or has them in another shape.
  absl::StatusOr<LowRank> WeightChange(const spec::TargetMatch& target) const;

  // A weight of the adapter that replaces the model's ("lm_head.weight"), as
  // stored; null if the adapter has none of that name.
  const tensorfile::TensorEntry* FindSaved(const std::string& weight) const;
  absl::StatusOr<at::Tensor> LoadSaved(const std::string& weight,
                                       at::ScalarType dtype) const;

  // The labels' names, from the model's config or from the run that made the
  // adapter; Transformers' default names if neither has any.
  std::vector<std::string> LabelNames() const;
  std::string ProblemType() const;

 private:
  AdaptedModel() = default;
  absl::Status ReadConfigs();
  void FindClassLabels();
  absl::Status FindHead();
  absl::Status CheckTied() const;
  absl::Status CheckComplete() const;

  std::filesystem::path model_, adapter_;
  spec::ModelConfig config_;
  spec::Task task_ = spec::Task::kCausalLm;
  spec::LoraSpec lora_;
  std::unique_ptr<tensorfile::Weights> weights_;
  std::unique_ptr<tensorfile::SafetensorsFile> file_;  // the adapter's file
  std::vector<spec::TargetMatch> targets_;
  bool head_is_embedding_ = false;
};

}  // namespace mpsd::merge

#endif  // MPSD_CORE_LORA_ADAPTED_MODEL_H_
