// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_SPEC_MODULES_H_
#define MPSD_CORE_SPEC_MODULES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/spec/model_config.h"

namespace mpsd::spec {

// A module with weights, by its Hugging Face name.
struct Module {
  enum class Kind { kEmbedding, kLinear, kNorm };

  std::string name;  // "model.layers.0.self_attn.q_proj", "lm_head"
  Kind kind = Kind::kLinear;
  int64_t in_features = 0;   // embedding: its rows; norm: 1
  int64_t out_features = 0;  // embedding, norm: its width
  bool bias = false;
  int64_t layer = -1;  // of the decoder; -1 outside

  int64_t parameters() const {
    return in_features * out_features + (bias ? out_features : 0);
  }
};

// All of them in the order of the network. "lm_head" is there with tied
// embeddings too, as in Transformers.
std::vector<Module> Modules(const ModelConfig& config);

}  // namespace mpsd::spec

#endif  // MPSD_CORE_SPEC_MODULES_H_
