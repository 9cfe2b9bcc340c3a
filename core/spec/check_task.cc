// SPDX-License-Identifier: Apache-2.0
#include "core/base/status_macros.h"
#include "core/base/strings.h"
#include "core/spec/train_spec.h"

namespace mpsd::spec {
namespace {

std::string_view TasksOf(Family family) {
  switch (family) {
    case Family::kEncoder:
      return "SEQ_CLS";
    case Family::kVision:
      return "IMAGE_CLS";
    case Family::kDecoder:
      break;
  }
  return "CAUSAL_LM and SEQ_CLS";
}

bool Serves(Family family, Task task) {
  switch (task) {
    case Task::kCausalLm:
      return family == Family::kDecoder;
    case Task::kSeqCls:
      return family != Family::kVision;
    case Task::kImageCls:
      return family == Family::kVision;
  }
  return false;
}

// Beyond max_position_embeddings "dynamic" has other frequencies for each
// length of a batch, which mpsd does not support.
absl::Status CheckLength(const TrainSpec& spec, const ModelConfig& config) {
  const int64_t limit = config.max_position_embeddings;
  if (!config.dynamic_rope || spec.task != Task::kCausalLm ||
      spec.training.max_length <= limit) {
    return absl::OkStatus();
  }
  return absl::UnimplementedError(base::Cat(
      "training.max_length: ", spec.training.max_length,
      " is more than the max_position_embeddings of the model (", limit,
      "), beyond which its rope type \"dynamic\" is not supported; set "
      "max_length to ",
      limit, " at most"));
}

}  // namespace

absl::Status CheckTask(const TrainSpec& spec, const ModelConfig& config) {
  if (!Serves(config.family, spec.task)) {
    return absl::InvalidArgumentError(base::Cat(
        "task: a model of type \"", config.model_type, "\" is for ",
        TasksOf(config.family), "; set task, or choose another model"));
  }
  RETURN_IF_ERROR(CheckQuantization(spec, config));
  RETURN_IF_ERROR(CheckLength(spec, config));
  if (spec.task != Task::kCausalLm || spec.from_scratch) {
    return absl::OkStatus();
  }
  for (const std::string& name : config.architectures) {
    if (name.ends_with("ForCausalLM")) return absl::OkStatus();
  }
  if (config.architectures.empty()) return absl::OkStatus();
  return absl::UnimplementedError(base::Cat(
      "model: CAUSAL_LM takes causal language models (…ForCausalLM); the "
      "architecture of this one is \"",
      config.architectures[0], "\""));
}

}  // namespace mpsd::spec
