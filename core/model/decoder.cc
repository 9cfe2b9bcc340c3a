// SPDX-License-Identifier: Apache-2.0
#include "core/model/decoder.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <optional>

#include "core/base/check.h"
#include "core/device/block_mark.h"

namespace mpsd::model {

namespace {

bool DrawsDropout(const DecoderLayer& l) {
  return l.q.draws() || l.k.draws() || l.v.draws() || l.o.draws() ||
         l.gate.draws() || l.up.draws() || l.down.draws();
}

}  // namespace

attention::TokenLayout DecoderInputs::layout() const {
  base::CheckEqual(input_ids.dim(), 2, "dimensions of input_ids");
  return {input_ids.size(0), input_ids.size(1), input_ids.device(), segment_ids,
          segment_lengths};
}

at::Tensor Decoder::Hidden(const DecoderInputs& inputs) const {
  std::optional<profile::BlockMark> embedding("mpsd::embedding");
  at::Tensor x = embedding_.Forward(inputs.input_ids, dtype());
  at::Tensor positions = inputs.position_ids;
  if (!positions.defined()) {
    const at::Tensor& ids = inputs.input_ids;
    positions = at::arange(ids.size(1), ids.options()).unsqueeze(0);
  }
  const RotaryTable table = rotary_.Table(positions, dtype());
  embedding.reset();
  size_t index = 0;
  for (const DecoderLayer& layer : layers_) {
    // Captured by value: a recomputed block runs again after this call has
    // returned.
    auto run = [this, &layer, table,
                segments = inputs.segment_ids](const at::Tensor& in) {
      return RunLayer(layer, in, table, segments);
    };
    x = RunBlock(index++, run, x, DrawsDropout(layer));
  }
  return norm_.Forward(x);
}

at::Tensor Decoder::Logits(const DecoderInputs& inputs) const {
  return head_.Forward(Hidden(inputs));
}

at::Tensor Decoder::Attend(const DecoderLayer& layer, const at::Tensor& x,
                           const RotaryTable& table,
                           const at::Tensor& segments) const {
  const profile::BlockMark mark("mpsd::attention");
  const int64_t rows = x.size(0), length = x.size(1);
  auto heads = [&](const at::Tensor& y, int64_t n) {
    return y.view({rows, length, n, config_.head_dim});
  };
  at::Tensor q = heads(layer.q.Forward(x), config_.num_attention_heads);
  at::Tensor k = heads(layer.k.Forward(x), config_.num_key_value_heads);
  const at::Tensor v = heads(layer.v.Forward(x), config_.num_key_value_heads);
  if (layer.q_norm) q = layer.q_norm->Forward(q);
  if (layer.k_norm) k = layer.k_norm->Forward(k);
  NoteAttention(attention::CausalName(options_.attention));
  const at::Tensor out = attention::CausalAttention(
      Rotary::Apply(q.transpose(1, 2), table),
      Rotary::Apply(k.transpose(1, 2), table), v.transpose(1, 2),
      {segments, layer.window}, options_.attention);
  return layer.o.Forward(out.transpose(1, 2).reshape({rows, length, -1}));
}

at::Tensor Decoder::RunLayer(const DecoderLayer& layer, const at::Tensor& x,
                             const RotaryTable& table,
                             const at::Tensor& segments) const {
  const at::Tensor h =
      x + Attend(layer, layer.input_norm.Forward(x), table, segments);
  const profile::BlockMark mark("mpsd::mlp");
  const at::Tensor n = layer.post_attention_norm.Forward(h);
  // Gate before up: dropout draws its masks in the order of PEFT's forward.
  const at::Tensor gate = at::silu(layer.gate.Forward(n));
  return h + layer.down.Forward(gate * layer.up.Forward(n));
}

std::vector<Linear*> Decoder::Linears() {
  std::vector<Linear*> linears;
  for (DecoderLayer& l : layers_) {
    linears.insert(linears.end(),
                   {&l.q, &l.k, &l.v, &l.o, &l.gate, &l.up, &l.down});
  }
  linears.push_back(&head_);
  return linears;
}

std::vector<NamedWeight> Decoder::NamedWeights() {
  WeightList list;
  list.Add(embedding_);
  for (DecoderLayer& l : layers_) {
    for (Linear* linear : {&l.q, &l.k, &l.v, &l.o}) list.Add(*linear);
    if (l.q_norm) list.Add(*l.q_norm);
    if (l.k_norm) list.Add(*l.k_norm);
    for (Linear* linear : {&l.gate, &l.up, &l.down}) list.Add(*linear);
    list.Add(l.input_norm);
    list.Add(l.post_attention_norm);
  }
  list.Add(norm_);
  list.Add(head_);
  return list.Take();
}

}  // namespace mpsd::model
