// SPDX-License-Identifier: Apache-2.0
#include "core/base/strings.h"
#include "core/spec/family_modules.h"

namespace mpsd::spec {
namespace {

using Kind = Module::Kind;

// Collects modules below a prefix.
class List {
 public:
  explicit List(const ModelConfig& config) : c_(config) {}

  void Begin(std::string prefix, int64_t layer = -1) {
    prefix_ = std::move(prefix);
    layer_ = layer;
  }
  void Embedding(const char* name, int64_t rows) {
    Add(name, Kind::kEmbedding, rows, c_.hidden_size, false);
  }
  void Norm(const char* name) {
    Add(name, Kind::kNorm, 1, c_.hidden_size, true);
  }
  void Linear(const char* name, int64_t in, int64_t out, bool head = false) {
    Add(name, Kind::kLinear, in, out, true);
    modules_.back().head = head;
  }
  std::vector<Module> Take() { return std::move(modules_); }

 private:
  void Add(const char* name, Kind kind, int64_t in, int64_t out, bool bias) {
    modules_.push_back({base::Cat(prefix_, name), kind, in, out, bias, layer_});
  }

  const ModelConfig& c_;
  std::string prefix_;
  int64_t layer_ = -1;
  std::vector<Module> modules_;
};

void AddEmbeddings(const ModelConfig& c, List& list) {
  list.Begin(c.model_type + ".embeddings.");
  list.Embedding("word_embeddings", c.vocab_size);
  const bool roberta = c.model_type == "roberta";
  if (!roberta) {
    list.Embedding("position_embeddings", c.max_position_embeddings);
  }
  if (c.encoder.type_vocab_size > 0) {
    list.Embedding("token_type_embeddings", c.encoder.type_vocab_size);
  }
  list.Norm("LayerNorm");
  if (roberta) {
    list.Embedding("position_embeddings", c.max_position_embeddings);
  }
}

void AddBertLayer(const ModelConfig& c, int64_t i, List& list) {
  const int64_t h = c.hidden_size;
  list.Begin(base::Cat(c.model_type, ".encoder.layer.", i, "."), i);
  list.Linear("attention.self.query", h, h);
  list.Linear("attention.self.key", h, h);
  list.Linear("attention.self.value", h, h);
  list.Linear("attention.output.dense", h, h);
  list.Norm("attention.output.LayerNorm");
  list.Linear("intermediate.dense", h, c.intermediate_size);
  list.Linear("output.dense", c.intermediate_size, h);
  list.Norm("output.LayerNorm");
}

void AddDistilBertLayer(const ModelConfig& c, int64_t i, List& list) {
  const int64_t h = c.hidden_size;
  list.Begin(base::Cat("distilbert.transformer.layer.", i, "."), i);
  list.Linear("attention.q_lin", h, h);
  list.Linear("attention.k_lin", h, h);
  list.Linear("attention.v_lin", h, h);
  list.Linear("attention.out_lin", h, h);
  list.Norm("sa_layer_norm");
  list.Linear("ffn.lin1", h, c.intermediate_size);
  list.Linear("ffn.lin2", c.intermediate_size, h);
  list.Norm("output_layer_norm");
}

void AddHead(const ModelConfig& c, List& list) {
  const int64_t h = c.hidden_size;
  list.Begin("");
  if (c.model_type == "bert") {
    list.Linear("bert.pooler.dense", h, h);
    list.Linear("classifier", h, c.num_labels, /*head=*/true);
  } else if (c.model_type == "roberta") {
    list.Linear("classifier.dense", h, h, /*head=*/true);
    list.Linear("classifier.out_proj", h, c.num_labels, /*head=*/true);
  } else {
    list.Linear("pre_classifier", h, h, /*head=*/true);
    list.Linear("classifier", h, c.num_labels, /*head=*/true);
  }
}

}  // namespace

std::vector<Module> EncoderModules(const ModelConfig& config) {
  List list(config);
  AddEmbeddings(config, list);
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
    if (config.model_type == "distilbert") {
      AddDistilBertLayer(config, i, list);
    } else {
      AddBertLayer(config, i, list);
    }
  }
  if (config.num_labels > 0) AddHead(config, list);
  return list.Take();
}

}  // namespace mpsd::spec
