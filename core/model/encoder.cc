// SPDX-License-Identifier: Apache-2.0
#include "core/model/encoder.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/device/block_mark.h"
#include "core/model/weight_reader.h"

namespace mpsd::model {

at::Tensor Encoder::Logits(const ClassifierInputs& inputs) const {
  const int64_t rows = inputs.input_ids.size(0);
  const int64_t length = inputs.input_ids.size(1);
  at::Tensor x = Embed(inputs).flatten(0, 1);
  at::Tensor keys;
  if (inputs.padded) {
    keys = attention::PaddingMask(inputs.lengths, length, dtype_);
  }
  const Dropout dropout = HiddenDropout(rows, length);
  size_t index = 0;
  for (const EncoderLayer& layer : layers_) {
    // Only the first token continues after the last attention, unless an
    // adapter there draws dropout: its mask has the shape of all tokens.
    const bool first_only = &layer == &layers_.back() && !layer.o.draws() &&
                            !layer.up.draws() && !layer.down.draws();
    auto run = [this, &layer, dropout, keys, first_only](const at::Tensor& in) {
      return RunLayer(layer, in, dropout, keys, first_only);
    };
    x = RunBlock(index++, run, x, DrawsDropout(layer));
  }
  return Head(First(x, rows));
}

at::Tensor Encoder::Embed(const ClassifierInputs& inputs) const {
  const profile::BlockMark mark("mpsd::embedding");
  at::Tensor x = words_.Forward(inputs.input_ids, dtype_);
  if (types_.weight.defined()) {
    // A network with one token type (RoBERTa) treats a pair as a single
    // sentence.
    const bool given =
        inputs.token_type_ids.defined() && types_.weight.size(0) > 1;
    x = x + types_.Forward(given
                               ? inputs.token_type_ids
                               : at::zeros({1, 1}, inputs.input_ids.options()),
                           dtype_);
  }
  x = x + positions_.Forward(PositionIds(inputs.input_ids), dtype_);
  x = at::dropout(embedding_norm_.Forward(x),
                  config_.encoder.hidden_dropout_prob, training_);
  return projects() ? Run(project_, x) : x;
}

at::Tensor Encoder::PositionIds(const at::Tensor& input_ids) const {
  if (!is("roberta")) {
    return at::arange(input_ids.size(1), input_ids.options()).unsqueeze(0);
  }
  // RoBERTa counts real tokens from padding + 1 on; padding itself has the
  // position `padding`.
  const int64_t padding = *config_.pad_token_id;
  const at::Tensor real = (input_ids != padding).to(at::kLong);
  return real.cumsum(1) * real + padding;
}

at::Tensor Encoder::RunLayer(const EncoderLayer& layer, const at::Tensor& x,
                             const Dropout& dropout, const at::Tensor& keys,
                             bool first_only) const {
  const at::Tensor in = first_only ? First(x, dropout.rows) : x;
  const at::Tensor attended =
      Run(layer.o, Attend(layer, x, dropout.rows, keys, first_only));
  const at::Tensor h =
      layer.attention_norm
          .OfSum(attended, in, is("distilbert") ? Dropout() : dropout)
          .y;
  const profile::BlockMark mark("mpsd::mlp");
  const at::Tensor y = Run(layer.down, RunActivated(layer.up, h));
  return layer.mlp_norm.OfSum(y, h, dropout).y;
}

at::Tensor Encoder::Attend(const EncoderLayer& layer, const at::Tensor& x,
                           int64_t rows, const at::Tensor& keys,
                           bool first_only) const {
  const profile::BlockMark mark("mpsd::attention");
  const auto heads = RunHeads({&layer.q, &layer.k, &layer.v}, x, rows);
  const at::Tensor &k = heads[1], &v = heads[2];
  const double dropout =
      training_ ? config_.encoder.attention_probs_dropout_prob : 0;
  // With dropout all queries are computed, so that the masks have Transformers'
  // shape.
  const at::Tensor q =
      first_only && dropout == 0 ? heads[0].narrow(2, 0, 1) : heads[0];
  NoteAttention(
      attention::BidirectionalName(q, k, dropout, options_.attention));
  const at::Tensor out = attention::BidirectionalAttention(
      q, k, v, keys, dropout, options_.attention);
  return first_only ? FirstQuery(out) : out;
}

at::Tensor Encoder::Head(const at::Tensor& first) const {
  const profile::BlockMark mark("mpsd::head");
  const double dropout = training_ ? config_.encoder.classifier_dropout : 0;
  const bool early = is("roberta") || is("electra");
  at::Tensor x = early ? at::dropout(first, dropout, true) : first;
  x = Run(dense_, x);
  x = is("distilbert") ? at::relu(x)
      : is("electra")  ? at::gelu(x)
                       : at::tanh(x);
  return Run(out_, at::dropout(x, dropout, true));
}

std::vector<Linear*> Encoder::Linears() {
  std::vector<Linear*> linears;
  if (projects()) linears.push_back(&project_);
  for (EncoderLayer& l : layers_) {
    linears.insert(linears.end(), {&l.q, &l.k, &l.v, &l.o, &l.up, &l.down});
  }
  linears.insert(linears.end(), {&dense_, &out_});
  return linears;
}

std::vector<NamedWeight> Encoder::NamedWeights() {
  WeightList list;
  list.Add(words_);
  if (!is("roberta")) list.Add(positions_);
  list.Add(types_);
  list.Add(embedding_norm_);
  if (is("roberta")) list.Add(positions_);
  if (projects()) list.Add(project_);
  for (EncoderLayer& l : layers_) {
    for (Linear* linear : {&l.q, &l.k, &l.v, &l.o}) list.Add(*linear);
    list.Add(l.attention_norm);
    list.Add(l.up);
    list.Add(l.down);
    list.Add(l.mlp_norm);
  }
  list.Add(dense_);
  list.Add(out_);
  return list.Take();
}

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
        prefix_(config.encoder.network + "."),
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
    const bool roberta = c_.encoder.network == "roberta";
    const int64_t width = c_.encoder.embedding_size;
    const auto table = [&](const char* name, int64_t rows, bool padded) {
      return reader_.MakeEmbedding(
          p + name, rows, width,
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
    model_->embedding_norm_ = reader_.MakeLayerNorm(p + "LayerNorm", width,
                                                    c_.encoder.layer_norm_eps);
    if (roberta) model_->positions_ = positions();
    if (model_->projects()) {
      model_->project_ = reader_.MakeLinear(prefix_ + "embeddings_project",
                                            c_.hidden_size, width, true);
    }
  }

  void LoadLayer(int64_t i, EncoderLayer& layer) {
    const BlockNames& n =
        c_.encoder.network == "distilbert" ? kDistilBert : kBert;
    const std::string p = absl::StrCat(prefix_, n.blocks, i, ".");
    const int64_t width = c_.hidden_size, inner = c_.intermediate_size;
    layer.q = reader_.MakeLinear(p + n.q, width, width, true);
    layer.k = reader_.MakeLinear(p + n.k, width, width, true);
    layer.v = reader_.MakeLinear(p + n.v, width, width, true);
    layer.o = reader_.MakeLinear(p + n.o, width, width, true);
    layer.attention_norm = Norm(p + n.attention_norm);
    layer.up = reader_.MakeLinear(p + n.up, inner, width, true);
    layer.down = reader_.MakeLinear(p + n.down, width, inner, true);
    layer.mlp_norm = Norm(p + n.output_norm);
  }

  void LoadHead() {
    std::string dense = "classifier.dense", out = "classifier.out_proj";
    if (model_->is("bert")) {
      dense = "bert.pooler.dense";
      out = "classifier";
    } else if (model_->is("distilbert")) {
      dense = "pre_classifier";
      out = "classifier";
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
