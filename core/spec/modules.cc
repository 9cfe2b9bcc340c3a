// SPDX-License-Identifier: Apache-2.0
#include "core/spec/modules.h"

#include "core/base/strings.h"
#include "core/spec/family_modules.h"

namespace mpsd::spec {
namespace {

using Kind = Module::Kind;

void AddDecoderLayer(const ModelConfig& c, int64_t layer,
                     std::vector<Module>& out) {
  const std::string prefix = base::Cat("model.layers.", layer, ".");
  const auto add = [&](const char* name, Kind kind, int64_t in, int64_t width,
                       bool bias = false) {
    out.push_back({base::Cat(prefix, name), kind, in, width, bias, layer});
  };
  add("self_attn.q_proj", Kind::kLinear, c.hidden_size, c.q_size(), c.qkv_bias);
  add("self_attn.k_proj", Kind::kLinear, c.hidden_size, c.kv_size(),
      c.qkv_bias);
  add("self_attn.v_proj", Kind::kLinear, c.hidden_size, c.kv_size(),
      c.qkv_bias);
  add("self_attn.o_proj", Kind::kLinear, c.q_size(), c.hidden_size, c.o_bias);
  if (c.qk_norm) {
    add("self_attn.q_norm", Kind::kNorm, 1, c.head_dim);
    add("self_attn.k_norm", Kind::kNorm, 1, c.head_dim);
  }
  add("mlp.gate_proj", Kind::kLinear, c.hidden_size, c.intermediate_size,
      c.mlp_bias);
  add("mlp.up_proj", Kind::kLinear, c.hidden_size, c.intermediate_size,
      c.mlp_bias);
  add("mlp.down_proj", Kind::kLinear, c.intermediate_size, c.hidden_size,
      c.mlp_bias);
  add("input_layernorm", Kind::kNorm, 1, c.hidden_size);
  add("post_attention_layernorm", Kind::kNorm, 1, c.hidden_size);
}

std::vector<Module> DecoderModules(const ModelConfig& config) {
  std::vector<Module> modules;
  modules.push_back({"model.embed_tokens", Kind::kEmbedding, config.vocab_size,
                     config.hidden_size});
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
    AddDecoderLayer(config, i, modules);
  }
  modules.push_back({"model.norm", Kind::kNorm, 1, config.hidden_size});
  const bool classifies = config.num_labels > 0;
  modules.push_back({classifies ? "score" : "lm_head", Kind::kLinear,
                     config.hidden_size,
                     classifies ? config.num_labels : config.vocab_size,
                     /*bias=*/false, /*layer=*/-1, /*head=*/true});
  return modules;
}

}  // namespace

std::vector<Module> Modules(const ModelConfig& config) {
  switch (config.family) {
    case Family::kEncoder:
      return EncoderModules(config);
    case Family::kVision:
      return VisionModules(config);
    case Family::kDecoder:
      break;
  }
  return DecoderModules(config);
}

std::string StoredName(const ModelConfig& config, const std::string& name) {
  return config.family == Family::kVision ? StoredVisionName(name) : name;
}

}  // namespace mpsd::spec
