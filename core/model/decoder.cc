// SPDX-License-Identifier: Apache-2.0
#include "core/model/decoder.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "absl/strings/str_cat.h"
#include "core/model/recompute.h"

namespace mpsd::model {

at::Tensor Decoder::Hidden(const DecoderInputs& inputs) const {
  at::Tensor x = embedding_.Forward(inputs.input_ids, dtype());
  const RotaryTable table = rotary_.Table(inputs.position_ids, dtype());
  for (const DecoderLayer& layer : layers_) {
    // By value: a checkpointed block runs again after this call has returned.
    auto run = [this, &layer, table,
                segments = inputs.segment_ids](const at::Tensor& in) {
      return RunLayer(layer, in, table, segments);
    };
    x = options_.activation_checkpointing && at::GradMode::is_enabled()
            ? Recompute(run, x)
            : run(x);
  }
  return norm_.Forward(x);
}

at::Tensor Decoder::Logits(const DecoderInputs& inputs) const {
  return head_.Forward(Hidden(inputs));
}

at::Tensor Decoder::Attend(const DecoderLayer& layer, const at::Tensor& x,
                           const RotaryTable& table,
                           const at::Tensor& segments) const {
  const int64_t rows = x.size(0), length = x.size(1);
  auto heads = [&](const at::Tensor& y, int64_t n) {
    return y.view({rows, length, n, config_.head_dim});
  };
  at::Tensor q = heads(layer.q.Forward(x), config_.num_attention_heads);
  at::Tensor k = heads(layer.k.Forward(x), config_.num_key_value_heads);
  const at::Tensor v = heads(layer.v.Forward(x), config_.num_key_value_heads);
  if (layer.q_norm) q = layer.q_norm->Forward(q);
  if (layer.k_norm) k = layer.k_norm->Forward(k);
  const at::Tensor out = CausalAttention(
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
  const at::Tensor n = layer.post_attention_norm.Forward(h);
  // In this order: dropout draws its masks as PEFT's forward does.
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
  std::vector<NamedWeight> all;
  auto add = [&](std::string name, at::Tensor& tensor) {
    all.push_back({std::move(name), &tensor});
  };
  auto add_linear = [&](Linear& l) {
    add(absl::StrCat(l.name, ".weight"), l.weight);
    if (l.bias.defined()) add(absl::StrCat(l.name, ".bias"), l.bias);
  };
  auto add_norm = [&](RmsNorm& n) {
    add(absl::StrCat(n.name, ".weight"), n.weight);
  };
  add(absl::StrCat(embedding_.name, ".weight"), embedding_.weight);
  for (DecoderLayer& l : layers_) {
    for (Linear* linear : {&l.q, &l.k, &l.v, &l.o}) add_linear(*linear);
    if (l.q_norm) add_norm(*l.q_norm);
    if (l.k_norm) add_norm(*l.k_norm);
    for (Linear* linear : {&l.gate, &l.up, &l.down}) add_linear(*linear);
    add_norm(l.input_norm);
    add_norm(l.post_attention_norm);
  }
  add_norm(norm_);
  add_linear(head_);
  return all;
}

}  // namespace mpsd::model
