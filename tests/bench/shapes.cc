// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/shapes.h"

#include <map>

#include "absl/strings/str_cat.h"

namespace mpsd::bench {
namespace {

const std::map<std::string, std::string>& Configs() {
  static const auto& configs = *new std::map<std::string, std::string>{
      {"llama7b", R"({"model_type": "llama", "vocab_size": 32000,
        "hidden_size": 4096, "intermediate_size": 11008,
        "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 32, "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-6, "tie_word_embeddings": false})"},
      {"qwen0.5b", R"({"model_type": "qwen2", "vocab_size": 151936,
        "hidden_size": 896, "intermediate_size": 4864,
        "num_hidden_layers": 24, "num_attention_heads": 14,
        "num_key_value_heads": 2, "max_position_embeddings": 32768,
        "rms_norm_eps": 1e-6, "tie_word_embeddings": true,
        "use_sliding_window": false})"},
      {"smol135m", R"({"model_type": "llama", "vocab_size": 49152,
        "hidden_size": 576, "intermediate_size": 1536,
        "num_hidden_layers": 30, "num_attention_heads": 9,
        "num_key_value_heads": 3, "max_position_embeddings": 8192,
        "rms_norm_eps": 1e-5, "tie_word_embeddings": true})"},
      {"tiny", R"({"model_type": "llama", "vocab_size": 1024,
        "hidden_size": 256, "intermediate_size": 688,
        "num_hidden_layers": 4, "num_attention_heads": 4,
        "num_key_value_heads": 4, "max_position_embeddings": 1024,
        "rms_norm_eps": 1e-6, "tie_word_embeddings": false})"}};
  return configs;
}

}  // namespace

absl::StatusOr<spec::ModelConfig> ConfigOf(const std::string& shape) {
  const auto it = Configs().find(shape);
  if (it != Configs().end()) {
    return spec::ParseModelConfig(it->second, shape);
  }
  std::string known;
  for (const auto& [name, config] : Configs()) {
    absl::StrAppend(&known, known.empty() ? "" : ", ", name);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("no shape \"", shape, "\"; there are ", known));
}

}  // namespace mpsd::bench
