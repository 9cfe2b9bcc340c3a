// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ckpt/safetensors.h"
#include "core/spec/model_config.h"
#include "core/spec/targets.h"
#include "core/spec/train_spec.h"

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

  // The labels' names, from the adapter's folder or the model's config;
  // Transformers' default names if neither has any.
  std::vector<std::string> LabelNames() const;
  std::string ProblemType() const;

 private:
  AdaptedModel() = default;
  absl::Status FindClassLabels();
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

struct Comparison {
  int64_t layers = 0;  // number of the network's layers that were run
  // ‖merged − reference‖ / ‖reference‖ over the logits.
  double error = 0;
};

// Runs the base model with the adapter, and the merged weights in `folder`, on
// a few random rows in fp32 on the CPU. If the model has more than `max_bytes`
// of fp32 weights, only the first layers run. DataLoss if the logits differ by
// more than rounding the weights to `dtype` explains.
absl::StatusOr<Comparison> CompareLogits(const AdaptedModel& adapted,
                                         const std::filesystem::path& folder,
                                         at::ScalarType dtype,
                                         int64_t max_bytes);

// The largest relative error that rounding to `dtype` makes.
double RoundingOf(at::ScalarType dtype);

struct MergeOptions {
  std::filesystem::path model;    // a model folder
  std::filesystem::path adapter;  // a PEFT folder
  std::filesystem::path out;      // appears complete or not at all
  // The result's dtype; absent: each weight keeps its file's dtype.
  std::optional<at::ScalarType> dtype;
  int64_t max_shard_bytes = 5'000'000'000;
  // If the model has more fp32 bytes, only the first layers are compared.
  int64_t max_compared_bytes = int64_t{4} << 30;
};

struct MergeReport {
  int64_t merged_weights = 0;    // W + scaling · B A
  int64_t replaced_weights = 0;  // from modules_to_save
  int64_t bytes = 0;             // size of all weights
  int64_t shards = 0;
  int64_t compared_layers = 0;  // number of layers that were compared
  double logit_error = 0;       // relative; see CompareLogits
};

// Merges a PEFT adapter into the weights it was trained on, with the result of
// PEFT's merge_and_unload and Transformers' save_pretrained (peft 0.21,
// tuners/lora/layer.py): W + scaling · B A with the product in fp32, rounded to
// W's dtype; modules_to_save replace their modules; tokenizer and config are
// copied. One weight is in memory at a time.
//
// The written result is checked in two ways: each merged weight on random
// inputs against base and adapter, within rounding; and the logits of the whole
// model (CompareLogits). `progress` (may be null) gets the current activity and
// its share done.
//
// InvalidArgument and Unimplemented for an adapter that does not fit the model,
// or a quantised model. DataLoss if a check fails. After an error no files are
// left.
absl::StatusOr<MergeReport> Merge(
    const MergeOptions& options,
    const std::function<void(const std::string&, double)>& progress = nullptr);

// Writes the folder `out`, complete or not at all, from which mlx-lm 0.32 loads
// the adapter on top of the model (tuner/utils.py, load_adapters):
// adapters.safetensors with lora_a [in, r] and lora_b [r, out] in fp32, and
// adapter_config.json. Modules of another rank than the largest are padded with
// zeros. Unimplemented for a classifier, and for an adapter that replaces
// modules.
absl::Status WriteMlxAdapter(const std::filesystem::path& model,
                             const std::filesystem::path& adapter,
                             const std::filesystem::path& out);

}  // namespace mpsd::merge
