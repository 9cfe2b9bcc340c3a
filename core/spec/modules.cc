// SPDX-License-Identifier: Apache-2.0
#include "core/spec/modules.h"

#include <array>
#include <utility>

#include "core/base/text.h"

namespace mpsd::spec {
namespace {

// Collects modules below a prefix.
class List {
 public:
  void Begin(std::string prefix, int64_t layer = -1) {
    prefix_ = std::move(prefix);
    layer_ = layer;
  }
  void Add(const char* name, Module::Kind kind, int64_t in, int64_t out,
           bool bias, bool head = false) {
    modules_.push_back(
        {base::Cat(prefix_, name), kind, in, out, bias, layer_, head});
  }
  void Linear(const char* name, int64_t in, int64_t out, bool bias = true,
              bool head = false) {
    Add(name, Module::Kind::kLinear, in, out, bias, head);
  }
  void Norm(const char* name, int64_t width, bool bias = true) {
    Add(name, Module::Kind::kNorm, 1, width, bias);
  }
  void Embedding(const char* name, int64_t rows, int64_t width) {
    Add(name, Module::Kind::kEmbedding, rows, width, /*bias=*/false);
  }
  std::vector<Module> Take() { return std::move(modules_); }

 private:
  std::string prefix_;
  int64_t layer_ = -1;
  std::vector<Module> modules_;
};

// --- decoders ----------------------------------------------------------------

void AddDecoderLayer(const ModelConfig& c, int64_t layer, List& list) {
  const int64_t h = c.hidden_size, inner = c.intermediate_size;
  list.Begin(base::Cat("model.layers.", layer, "."), layer);
  if (c.fused) {
    list.Linear("self_attn.o_proj", c.q_size(), h, c.o_bias);
    list.Linear("self_attn.qkv_proj", h, c.q_size() + 2 * c.kv_size(),
                c.qkv_bias);
  } else {
    list.Linear("self_attn.q_proj", h, c.q_size(), c.qkv_bias);
    list.Linear("self_attn.k_proj", h, c.kv_size(), c.qkv_bias);
    list.Linear("self_attn.v_proj", h, c.kv_size(), c.qkv_bias);
    list.Linear("self_attn.o_proj", c.q_size(), h, c.o_bias);
  }
  if (c.qk_norm) {
    list.Norm("self_attn.q_norm", c.q_norm_size(), /*bias=*/false);
    list.Norm("self_attn.k_norm", c.k_norm_size(), /*bias=*/false);
  }
  if (c.fused) {
    list.Linear("mlp.gate_up_proj", h, 2 * inner, c.mlp_bias);
  } else {
    list.Linear("mlp.gate_proj", h, inner, c.mlp_bias);
    list.Linear("mlp.up_proj", h, inner, c.mlp_bias);
  }
  list.Linear("mlp.down_proj", inner, h, c.mlp_bias);
  for (const std::string* norm : {&c.norms.attention, &c.norms.attention_output,
                                  &c.norms.mlp, &c.norms.mlp_output}) {
    if (!norm->empty()) list.Norm(norm->c_str(), h, /*bias=*/false);
  }
}

std::vector<Module> DecoderModules(const ModelConfig& c) {
  const int64_t h = c.hidden_size;
  List list;
  list.Embedding("model.embed_tokens", c.vocab_size, h);
  for (int64_t i = 0; i < c.num_hidden_layers; ++i) {
    AddDecoderLayer(c, i, list);
  }
  list.Begin("");
  list.Norm("model.norm", h, /*bias=*/false);
  const bool classifies = c.num_labels > 0;
  list.Linear(classifies ? "score" : "lm_head", h,
              classifies ? c.num_labels : c.vocab_size, /*bias=*/false,
              /*head=*/true);
  return list.Take();
}

// --- BERT, RoBERTa, ELECTRA, DistilBERT (transformers 5.23, models/*) --------

// The modules of a block, by name below its prefix.
struct EncoderBlock {
  const char* layers;  // the prefix after the model's type
  const char* attention[4];
  const char* attention_norm;
  const char *in, *out, *norm;
};
constexpr EncoderBlock kBertBlock = {
    ".encoder.layer.",
    {"attention.self.query", "attention.self.key", "attention.self.value",
     "attention.output.dense"},
    "attention.output.LayerNorm",
    "intermediate.dense",
    "output.dense",
    "output.LayerNorm"};
constexpr EncoderBlock kDistilBertBlock = {
    ".transformer.layer.",
    {"attention.q_lin", "attention.k_lin", "attention.v_lin",
     "attention.out_lin"},
    "sa_layer_norm",
    "ffn.lin1",
    "ffn.lin2",
    "output_layer_norm"};

void AddEmbeddings(const ModelConfig& c, List& list) {
  const int64_t h = c.encoder.embedding_size;
  list.Begin(c.encoder.network + ".embeddings.");
  list.Embedding("word_embeddings", c.vocab_size, h);
  const bool roberta = c.encoder.network == "roberta";
  if (!roberta) {
    list.Embedding("position_embeddings", c.max_position_embeddings, h);
  }
  if (c.encoder.type_vocab_size > 0) {
    list.Embedding("token_type_embeddings", c.encoder.type_vocab_size, h);
  }
  list.Norm("LayerNorm", h);
  if (roberta) {
    list.Embedding("position_embeddings", c.max_position_embeddings, h);
  }
  if (h == c.hidden_size) return;
  list.Begin(c.encoder.network + ".");
  list.Linear("embeddings_project", h, c.hidden_size);
}

void AddEncoderLayer(const ModelConfig& c, int64_t i, List& list) {
  const EncoderBlock& block =
      c.encoder.network == "distilbert" ? kDistilBertBlock : kBertBlock;
  const int64_t h = c.hidden_size;
  list.Begin(base::Cat(c.encoder.network, block.layers, i, "."), i);
  for (const char* name : block.attention) list.Linear(name, h, h);
  list.Norm(block.attention_norm, h);
  list.Linear(block.in, h, c.intermediate_size);
  list.Linear(block.out, c.intermediate_size, h);
  list.Norm(block.norm, h);
}

void AddEncoderHead(const ModelConfig& c, List& list) {
  const bool bert = c.encoder.network == "bert";
  const bool distilbert = c.encoder.network == "distilbert";
  list.Begin("");
  list.Linear(bert         ? "bert.pooler.dense"
              : distilbert ? "pre_classifier"
                           : "classifier.dense",
              c.hidden_size, c.hidden_size, /*bias=*/true, /*head=*/!bert);
  list.Linear(bert || distilbert ? "classifier" : "classifier.out_proj",
              c.hidden_size, c.num_labels, /*bias=*/true, /*head=*/true);
}

std::vector<Module> EncoderModules(const ModelConfig& c) {
  List list;
  AddEmbeddings(c, list);
  for (int64_t i = 0; i < c.num_hidden_layers; ++i) AddEncoderLayer(c, i, list);
  if (c.num_labels > 0) AddEncoderHead(c, list);
  return list.Take();
}

// --- ViT ---------------------------------------------------------------------

void AddVisionLayer(const ModelConfig& c, int64_t i, List& list) {
  const int64_t h = c.hidden_size;
  list.Begin(base::Cat("vit.layers.", i, "."), i);
  list.Linear("attention.q_proj", h, h, c.vision.qkv_bias);
  list.Linear("attention.k_proj", h, h, c.vision.qkv_bias);
  list.Linear("attention.v_proj", h, h, c.vision.qkv_bias);
  list.Linear("attention.o_proj", h, h);
  list.Norm("layernorm_before", h);
  list.Norm("layernorm_after", h);
  list.Linear("mlp.fc1", h, c.intermediate_size);
  list.Linear("mlp.fc2", c.intermediate_size, h);
}

std::vector<Module> VisionModules(const ModelConfig& c) {
  const VisionConfig& v = c.vision;
  const int64_t h = c.hidden_size;
  List list;
  list.Begin("vit.embeddings.");
  list.Add("cls_token", Module::Kind::kParameter, 1, h, /*bias=*/false);
  list.Add("position_embeddings", Module::Kind::kParameter, v.patches() + 1, h,
           /*bias=*/false);
  list.Add("patch_embeddings.projection", Module::Kind::kConvolution,
           v.num_channels * v.patch_size * v.patch_size, h, /*bias=*/true);
  for (int64_t i = 0; i < c.num_hidden_layers; ++i) AddVisionLayer(c, i, list);
  list.Begin("");
  list.Norm("vit.layernorm", h);
  if (c.num_labels > 0) {
    list.Linear("classifier", h, c.num_labels, /*bias=*/true, /*head=*/true);
  }
  return list.Take();
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

ModuleNames::ModuleNames(const std::vector<std::string>& entries)
    : entries_(entries) {
  for (const std::string& entry : entries) met_.emplace(entry, false);
}

bool ModuleNames::Mean(std::string_view name) {
  bool means = false;
  while (true) {
    const auto found = met_.find(name);
    if (found != met_.end()) found->second = means = true;
    const size_t dot = name.find('.');
    if (dot == std::string_view::npos) return means;
    name.remove_prefix(dot + 1);
  }
}

const std::string* ModuleNames::Unmet() const {
  for (const std::string& entry : entries_) {
    if (!met_.at(entry)) return &entry;
  }
  return nullptr;
}

}  // namespace mpsd::spec
