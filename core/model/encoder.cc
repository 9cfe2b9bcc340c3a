// SPDX-License-Identifier: Apache-2.0
#include "core/model/encoder.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "core/device/block_mark.h"

namespace mpsd::model {

at::Tensor Encoder::Logits(const ClassifierInputs& inputs) const {
  at::Tensor x = Embed(inputs);
  at::Tensor keys;
  if (inputs.padded)
    keys = attention::PaddingMask(inputs.lengths, x.size(1), dtype_);
  size_t index = 0;
  for (const EncoderLayer& layer : layers_) {
    // Only the first token continues after the last attention, unless an
    // adapter there draws dropout: its mask has the shape of all tokens.
    const bool first_only = &layer == &layers_.back() && !layer.o.draws() &&
                            !layer.up.draws() && !layer.down.draws();
    auto run = [this, &layer, keys, first_only](const at::Tensor& in) {
      return RunLayer(layer, in, keys, first_only);
    };
    x = RunBlock(index++, run, x, DrawsDropout(layer));
  }
  return Head(x.select(1, 0));
}

at::Tensor Encoder::Embed(const ClassifierInputs& inputs) const {
  const profile::BlockMark mark("mpsd::embedding");
  at::Tensor x = Run(words_, inputs.input_ids);
  if (types_.weight.defined()) {
    // A network with one token type (RoBERTa) treats a pair as a single
    // sentence.
    const bool given =
        inputs.token_type_ids.defined() && types_.weight.size(0) > 1;
    x = x + Run(types_, given ? inputs.token_type_ids
                              : at::zeros({1, 1}, inputs.input_ids.options()));
  }
  x = x + Run(positions_, PositionIds(inputs.input_ids));
  return Drop(embedding_norm_.Forward(x), config_.encoder.hidden_dropout_prob,
              x.size(1));
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
                             const at::Tensor& keys, bool first_only) const {
  const int64_t length = x.size(1);
  const double hidden_dropout = config_.encoder.hidden_dropout_prob;
  const at::Tensor in = first_only ? x.narrow(1, 0, 1) : x;
  at::Tensor h = Run(layer.o, Attend(layer, x, keys, first_only));
  if (!is("distilbert")) h = Drop(h, hidden_dropout, length);
  h = layer.attention_norm.Forward(h + in);
  const profile::BlockMark mark("mpsd::mlp");
  const at::Tensor inner =
      Activate(Run(layer.up, h), config_.encoder.hidden_act);
  const at::Tensor y = Drop(Run(layer.down, inner), hidden_dropout, length);
  return layer.output_norm.Forward(y + h);
}

at::Tensor Encoder::Attend(const EncoderLayer& layer, const at::Tensor& x,
                           const at::Tensor& keys, bool first_only) const {
  const profile::BlockMark mark("mpsd::attention");
  const int64_t rows = x.size(0), length = x.size(1);
  const auto heads = [&](const at::Tensor& y) {
    return y.view({rows, length, config_.num_attention_heads, config_.head_dim})
        .transpose(1, 2);
  };
  at::Tensor q = heads(Run(layer.q, x));
  const at::Tensor k = heads(Run(layer.k, x));
  const at::Tensor v = heads(Run(layer.v, x));
  const double dropout =
      training_ ? config_.encoder.attention_probs_dropout_prob : 0;
  // With dropout all queries are computed, so that the masks have Transformers'
  // shape.
  if (first_only && dropout == 0) q = q.narrow(2, 0, 1);
  NoteAttention(
      attention::BidirectionalName(q, k, dropout, options_.attention));
  const at::Tensor out = attention::BidirectionalAttention(
                             q, k, v, keys, dropout, options_.attention)
                             .transpose(1, 2);
  return (first_only ? out.narrow(1, 0, 1) : out)
      .reshape({rows, first_only ? 1 : length, -1});
}

at::Tensor Encoder::Head(const at::Tensor& first) const {
  const profile::BlockMark mark("mpsd::head");
  const double dropout = training_ ? config_.encoder.classifier_dropout : 0;
  at::Tensor x = is("roberta") ? at::dropout(first, dropout, true) : first;
  x = Run(dense_, x);
  x = is("distilbert") ? at::relu(x) : at::tanh(x);
  return Run(out_, at::dropout(x, dropout, true));
}

at::Tensor Encoder::Drop(const at::Tensor& x, double probability,
                         int64_t length) const {
  if (!training_ || probability == 0) return x;
  return TokenDropout(x, probability, length);
}

bool Encoder::DrawsDropout(const EncoderLayer& l) const {
  const spec::EncoderConfig& e = config_.encoder;
  const bool own = training_ && (e.hidden_dropout_prob > 0 ||
                                 e.attention_probs_dropout_prob > 0);
  return own || l.q.draws() || l.k.draws() || l.v.draws() || l.o.draws() ||
         l.up.draws() || l.down.draws();
}

std::vector<Linear*> Encoder::Linears() {
  std::vector<Linear*> linears;
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
  for (EncoderLayer& l : layers_) {
    for (Linear* linear : {&l.q, &l.k, &l.v, &l.o}) list.Add(*linear);
    list.Add(l.attention_norm);
    list.Add(l.up);
    list.Add(l.down);
    list.Add(l.output_norm);
  }
  list.Add(dense_);
  list.Add(out_);
  return list.Take();
}

}  // namespace mpsd::model
