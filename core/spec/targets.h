// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/spec/model_config.h"
#include "core/spec/modules.h"
#include "core/spec/train_spec.h"

// Which modules an adapter changes, by PEFT's rules (peft 0.21,
// tuners/tuners_utils.py check_target_module_exists, utils/other.py).
namespace mpsd::spec {

// A linear layer that gets LoRA matrices A [r, in] and B [out, r].
struct TargetMatch {
  std::string name;  // "model.layers.0.self_attn.q_proj"
  int64_t r = 0;
  double alpha = 0;
  double scaling = 0;  // alpha / r, or alpha / sqrt(r) with rsLoRA
  int64_t in_features = 0;
  int64_t out_features = 0;
  bool operator==(const TargetMatch&) const = default;
};

// PEFT's targets for a model type if target_modules is absent
// (TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING). For model types without
// a default in PEFT (DistilBERT, ViT, Phi-3 …): queries and values.
std::vector<std::string> DefaultTargetModules(const std::string& model_type);

// `lora` with PEFT's defaults for absent targets and dropout. For a model with
// a classification head, modules_to_save also gets the head, which PEFT's
// PeftModelForSequenceClassification adds.
LoraSpec EffectiveLora(LoraSpec lora, const ModelConfig& config);

// The matches in the order of the network, at least one.
//  - A list: each entry is a full name or the end of one after a dot.
//  - A string: a regular expression that matches full names as a whole (for its
//    syntax see python_regex.h).
//  - "all-linear": every linear layer except those of the head.
//  - layers_to_transform keeps only those decoder layers.
//  - Modules of modules_to_save never match: they are trained as a whole.
//  - r and alpha come from the first key of rank_pattern and alpha_pattern that
//    matches the end of the name as (.*\.)?(key)$.
// InvalidArgument for an entry or regex that matches no linear layer, listing
// the model's linear layers, and for a layer number that the model does not
// have.
absl::StatusOr<std::vector<TargetMatch>> MatchTargets(
    const LoraSpec& lora, const ModelConfig& config);

// InvalidArgument for a key of rank_pattern or alpha_pattern that matches none
// of MatchTargets: the job asks for a module that the model lacks. An adapter's
// own config may have such keys, which PEFT ignores.
absl::Status CheckPatternKeys(const LoraSpec& lora, const ModelConfig& config);

// The modules of modules_to_save: modules with weights whose name, or the name
// of a module around them, ends in an entry (plain suffix, as in PEFT).
// InvalidArgument for an entry that no module ends in, except "classifier" and
// "score" if the model classifies.
absl::StatusOr<std::vector<Module>> MatchModulesToSave(
    const LoraSpec& lora, const ModelConfig& config);

}  // namespace mpsd::spec
