// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/spec/model_config.h"

namespace mpsd::spec {

// A module with weights, by its name in Transformers 5, which PEFT's
// target_modules and an adapter's keys use. A vision transformer's file has
// older names: see StoredName.
struct Module {
  enum class Kind {
    kEmbedding,
    kLinear,
    kNorm,
    kConvolution,  // patches: in_features = channels · patch_size²
    kParameter,    // a single tensor, without ".weight"
  };

  std::string name;  // "model.layers.0.self_attn.q_proj", "lm_head"
  Kind kind = Kind::kLinear;
  int64_t in_features = 0;   // embedding: its rows; norm: 1
  int64_t out_features = 0;  // embedding, norm: its width
  bool bias = false;
  int64_t layer = -1;  // index of the block; -1 outside
  bool head = false;   // part of the task's head

  int64_t parameters() const {
    return in_features * out_features + (bias ? out_features : 0);
  }
};

// All modules in the order of the network. A decoder ends in "lm_head" (also
// with tied embeddings, as in Transformers); with config.num_labels > 0 a
// network ends in the classification head instead: a decoder in "score", the
// others in "classifier" and the layers before it.
std::vector<Module> Modules(const ModelConfig& config);

// The name of a module or weight in the model's file, as save_pretrained writes
// it. "vit.layers.0.attention.q_proj.weight" is stored as
// "vit.encoder.layer.0.attention.attention.query.weight" (transformers 5.23,
// conversion_mapping.py); all other families store the names above.
std::string StoredName(const ModelConfig& config, const std::string& name);

// Entries of a list of module names, such as target_modules: a full name, or
// the end of one after a dot. A look-up takes the same time for any number of
// entries.
class ModuleNames {
 public:
  // `entries` must outlive the object.
  explicit ModuleNames(const std::vector<std::string>& entries);

  // Whether an entry names `name`; marks all such entries as met.
  bool Mean(std::string_view name);

  // An entry that was never met (the first), or null.
  const std::string* Unmet() const;

 private:
  const std::vector<std::string>& entries_;
  std::unordered_map<std::string_view, bool> met_;  // by entry
};

}  // namespace mpsd::spec
