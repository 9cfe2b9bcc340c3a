// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <utility>

#include "core/base/strings.h"
#include "core/spec/family_modules.h"

namespace mpsd::spec {
namespace {

using Kind = Module::Kind;

void AddLayer(const ModelConfig& c, int64_t i, std::vector<Module>& out) {
  const std::string prefix = base::Cat("vit.layers.", i, ".");
  const int64_t h = c.hidden_size;
  const auto add = [&](const char* name, Kind kind, int64_t in, int64_t width,
                       bool bias = true) {
    out.push_back({base::Cat(prefix, name), kind, in, width, bias, i});
  };
  add("attention.q_proj", Kind::kLinear, h, h, c.vision.qkv_bias);
  add("attention.k_proj", Kind::kLinear, h, h, c.vision.qkv_bias);
  add("attention.v_proj", Kind::kLinear, h, h, c.vision.qkv_bias);
  add("attention.o_proj", Kind::kLinear, h, h);
  add("layernorm_before", Kind::kNorm, 1, h);
  add("layernorm_after", Kind::kNorm, 1, h);
  add("mlp.fc1", Kind::kLinear, h, c.intermediate_size);
  add("mlp.fc2", Kind::kLinear, c.intermediate_size, h);
}

// The name that a part of a block has in the file.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6>
    kStoredParts = {{
        {"attention.q_proj", "attention.attention.query"},
        {"attention.k_proj", "attention.attention.key"},
        {"attention.v_proj", "attention.attention.value"},
        {"attention.o_proj", "attention.output.dense"},
        {"mlp.fc1", "intermediate.dense"},
        {"mlp.fc2", "output.dense"},
    }};

}  // namespace

std::vector<Module> VisionModules(const ModelConfig& c) {
  const VisionConfig& v = c.vision;
  const std::string e = "vit.embeddings.";
  const int64_t h = c.hidden_size;
  std::vector<Module> modules;
  modules.push_back({e + "cls_token", Kind::kParameter, 1, h});
  modules.push_back(
      {e + "position_embeddings", Kind::kParameter, v.patches() + 1, h});
  modules.push_back({e + "patch_embeddings.projection", Kind::kConvolution,
                     v.num_channels * v.patch_size * v.patch_size, h,
                     /*bias=*/true});
  for (int64_t i = 0; i < c.num_hidden_layers; ++i) AddLayer(c, i, modules);
  modules.push_back({"vit.layernorm", Kind::kNorm, 1, h, /*bias=*/true});
  if (c.num_labels > 0) {
    modules.push_back({"classifier", Kind::kLinear, h, c.num_labels,
                       /*bias=*/true, /*layer=*/-1, /*head=*/true});
  }
  return modules;
}

std::string StoredVisionName(const std::string& name) {
  constexpr std::string_view kLayers = "vit.layers.";
  if (!name.starts_with(kLayers)) return name;
  const size_t dot = name.find('.', kLayers.size());
  if (dot == std::string::npos) return name;
  const std::string layer = name.substr(kLayers.size(), dot - kLayers.size());
  std::string part = name.substr(dot + 1);
  for (const auto& [called, stored] : kStoredParts) {
    if (part == called || part.starts_with(base::Cat(called, "."))) {
      part = base::Cat(stored, part.substr(called.size()));
      break;
    }
  }
  return base::Cat("vit.encoder.layer.", layer, ".", part);
}

}  // namespace mpsd::spec
