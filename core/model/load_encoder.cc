// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/model/encoder.h"
#include "core/model/weight_reader.h"

namespace mpsd::model {
namespace {

// The names of a block's modules in each family.
struct BlockNames {
  const char *blocks, *q, *k, *v, *o, *attention_norm, *up, *down, *output_norm;
};
constexpr BlockNames kBert = {
    "encoder.layer.",         "attention.self.query",
    "attention.self.key",     "attention.self.value",
    "attention.output.dense", "attention.output.LayerNorm",
    "intermediate.dense",     "output.dense",
    "output.LayerNorm"};
constexpr BlockNames kDistilBert = {
    "transformer.layer.", "attention.q_lin",   "attention.k_lin",
    "attention.v_lin",    "attention.out_lin", "sa_layer_norm",
    "ffn.lin1",           "ffn.lin2",          "output_layer_norm"};

}  // namespace

class EncoderLoader {
 public:
  EncoderLoader(const WeightSource& source, const spec::ModelConfig& config,
                const std::function<void(double)>& progress)
      : c_(config),
        progress_(progress),
        prefix_(config.model_type + "."),
        model_(new Encoder(config, source.dtype)),
        reader_(source, prefix_, config.initializer_range) {}

  absl::StatusOr<std::unique_ptr<Encoder>> Load() {
    LoadEmbeddings();
    model_->layers_.resize(c_.num_hidden_layers);
    for (int64_t i = 0; i < c_.num_hidden_layers && reader_.status().ok();
         ++i) {
      LoadLayer(i, model_->layers_[i]);
      if (progress_) progress_(double(i + 1) / c_.num_hidden_layers);
    }
    LoadHead();
    if (!reader_.status().ok()) return reader_.status();
    model_->fresh_ = reader_.fresh_modules();
    model_->report_ = reader_.Report(c_.family);
    return std::move(model_);
  }

 private:
  void LoadEmbeddings() {
    const std::string p = prefix_ + "embeddings.";
    const bool roberta = c_.model_type == "roberta";
    const auto table = [&](const char* name, int64_t rows, bool padded) {
      return reader_.MakeEmbedding(
          p + name, rows, c_.hidden_size,
          padded ? c_.pad_token_id : std::optional<int64_t>());
    };
    const auto positions = [&] {
      return table("position_embeddings", c_.max_position_embeddings, roberta);
    };
    model_->words_ = table("word_embeddings", c_.vocab_size, true);
    if (!roberta) model_->positions_ = positions();
    if (c_.encoder.type_vocab_size > 0) {
      model_->types_ =
          table("token_type_embeddings", c_.encoder.type_vocab_size, false);
    }
    model_->embedding_norm_ = Norm(p + "LayerNorm");
    if (roberta) model_->positions_ = positions();
  }

  void LoadLayer(int64_t i, EncoderLayer& layer) {
    const BlockNames& n = c_.model_type == "distilbert" ? kDistilBert : kBert;
    const std::string p = absl::StrCat(prefix_, n.blocks, i, ".");
    const int64_t width = c_.hidden_size, inner = c_.intermediate_size;
    layer.q = reader_.MakeLinear(p + n.q, width, width, true);
    layer.k = reader_.MakeLinear(p + n.k, width, width, true);
    layer.v = reader_.MakeLinear(p + n.v, width, width, true);
    layer.o = reader_.MakeLinear(p + n.o, width, width, true);
    layer.attention_norm = Norm(p + n.attention_norm);
    layer.up = reader_.MakeLinear(p + n.up, inner, width, true);
    layer.down = reader_.MakeLinear(p + n.down, width, inner, true);
    layer.output_norm = Norm(p + n.output_norm);
  }

  void LoadHead() {
    std::string dense = "bert.pooler.dense", out = "classifier";
    if (c_.model_type == "roberta") {
      dense = "classifier.dense";
      out = "classifier.out_proj";
    } else if (c_.model_type == "distilbert") {
      dense = "pre_classifier";
    }
    const int64_t width = c_.hidden_size;
    model_->dense_ = reader_.MakeHead(dense, width, width, true);
    model_->out_ = reader_.MakeHead(out, c_.num_labels, width, true);
  }

  LayerNorm Norm(const std::string& name) {
    return reader_.MakeLayerNorm(name, c_.hidden_size,
                                 c_.encoder.layer_norm_eps);
  }

  const spec::ModelConfig& c_;
  const std::function<void(double)>& progress_;
  const std::string prefix_;
  std::unique_ptr<Encoder> model_;
  WeightReader reader_;
};

absl::StatusOr<std::unique_ptr<Encoder>> Encoder::Load(
    const WeightSource& source, const spec::ModelConfig& config,
    const std::function<void(double)>& progress) {
  return EncoderLoader(source, config, progress).Load();
}

}  // namespace mpsd::model
