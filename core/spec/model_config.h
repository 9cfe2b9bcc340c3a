// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_SPEC_MODEL_CONFIG_H_
#define MPSD_CORE_SPEC_MODEL_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace mpsd::spec {

// "rope_scaling" / "rope_parameters" of rope_type "llama3"
// (transformers, modeling_rope_utils.py, _compute_llama3_parameters).
struct Llama3RopeScaling {
  double factor = 8;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  int64_t original_max_position_embeddings = 8192;
};

// A decoder of the Llama family, as its config.json describes it.
struct ModelConfig {
  std::string model_type;  // "llama", "mistral", "qwen2", "qwen3"
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t num_attention_heads = 0;
  int64_t num_key_value_heads = 0;  // divides num_attention_heads
  int64_t head_dim = 0;             // default: hidden_size / heads
  int64_t max_position_embeddings = 0;
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000;
  std::optional<Llama3RopeScaling> rope_scaling;
  std::optional<double> linear_rope_factor;  // rope_type "linear"
  bool tie_word_embeddings = false;
  bool qkv_bias = false;  // q, k, v projections (Qwen2)
  bool o_bias = false;    // o_proj (Llama's attention_bias: all four)
  bool mlp_bias = false;  // Llama's mlp_bias
  bool qk_norm = false;   // per-head RMSNorm of q and k (Qwen3)
  // Tokens a query sees, itself included; per layer, 0 = all before it.
  std::vector<int64_t> sliding_window;
  std::string torch_dtype;  // "bfloat16", "float32" … as stored, or ""

  int64_t q_size() const { return num_attention_heads * head_dim; }
  int64_t kv_size() const { return num_key_value_heads * head_dim; }
};

// Reads the text of config.json, of Transformers 4 ("rope_theta",
// "rope_scaling", "torch_dtype") or 5 ("rope_parameters", "dtype"). A field
// that is absent has the default of Transformers' config class, the sizes of
// the network excepted, which must be there. Unimplemented for an architecture
// or option mpsd does not have (naming it and those it has); InvalidArgument
// for a missing or ill-typed field, naming it and its line. `origin` names the
// file in errors.
absl::StatusOr<ModelConfig> ParseModelConfig(std::string_view json,
                                             std::string_view origin);
absl::StatusOr<ModelConfig> ReadModelConfig(const std::string& model_dir);

// Numbers in the base model's weights, embeddings counted once when tied.
int64_t ParameterCount(const ModelConfig& config);

}  // namespace mpsd::spec

#endif  // MPSD_CORE_SPEC_MODEL_CONFIG_H_
