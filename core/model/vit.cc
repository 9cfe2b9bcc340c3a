// SPDX-License-Identifier: Apache-2.0
#include "core/model/vit.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "core/device/block_mark.h"

namespace mpsd::model {

at::Tensor Vit::Logits(const ClassifierInputs& inputs) const {
  at::Tensor x = Embed(inputs.pixels);
  size_t index = 0;
  for (const VitLayer& layer : layers_) {
    // Only the first token continues after the last attention, unless an
    // adapter there draws dropout: its mask has the shape of all tokens.
    const bool first_only = &layer == &layers_.back() && !layer.o.draws() &&
                            !layer.up.draws() && !layer.down.draws();
    auto run = [this, &layer, first_only](const at::Tensor& in) {
      return RunLayer(layer, in, first_only);
    };
    x = RunBlock(index++, run, x, DrawsDropout(layer));
  }
  return Run(head_, norm_.Forward(x.select(1, 0)));
}

at::Tensor Vit::EmbedPatches(const at::Tensor& pixels) const {
  const spec::VisionConfig& v = config_.vision;
  const int64_t rows = pixels.size(0), p = v.patch_size;
  // The convolution's stride equals its kernel size: each patch is multiplied
  // by the weight once, so one product of flattened patches computes it.
  const int64_t across = v.image_size / p;
  const int64_t kept = across * p;  // a convolution drops a partial patch too
  const at::Tensor patches =
      pixels.to(dtype_)
          .slice(2, 0, kept)
          .slice(3, 0, kept)
          .reshape({rows, v.num_channels, across, p, across, p})
          .permute({0, 2, 4, 1, 3, 5})
          .reshape({rows, across * across, v.num_channels * p * p});
  return at::linear(patches, patch_weight_.to(dtype_).flatten(1),
                    patch_bias_.to(dtype_));
}

at::Tensor Vit::Embed(const at::Tensor& pixels) const {
  const profile::BlockMark mark("mpsd::embedding");
  const spec::VisionConfig& v = config_.vision;
  const int64_t size = v.image_size;
  TORCH_CHECK(pixels.dim() == 4 && pixels.size(1) == v.num_channels &&
                  pixels.size(2) == size && pixels.size(3) == size,
              "images of ", pixels.sizes(), " where the model takes [rows, ",
              v.num_channels, ", ", size, ", ", size, "]");
  const at::Tensor patches = EmbedPatches(pixels);
  const at::Tensor first =
      class_token_.to(dtype_).expand({patches.size(0), 1, -1});
  const at::Tensor x = at::cat({first, patches}, 1) + positions_.to(dtype_);
  return Drop(x, x.size(1));
}

at::Tensor Vit::RunLayer(const VitLayer& layer, const at::Tensor& x,
                         bool first_only) const {
  const int64_t length = x.size(1);
  const at::Tensor in = first_only ? x.narrow(1, 0, 1) : x;
  const at::Tensor attended =
      Run(layer.o, Attend(layer, layer.attention_norm.Forward(x), first_only));
  const at::Tensor h = Drop(attended, length) + in;
  const profile::BlockMark mark("mpsd::mlp");
  const at::Tensor inner = Activate(Run(layer.up, layer.mlp_norm.Forward(h)),
                                    config_.encoder.hidden_act);
  return Drop(Run(layer.down, inner), length) + h;
}

at::Tensor Vit::Attend(const VitLayer& layer, const at::Tensor& x,
                       bool first_only) const {
  const profile::BlockMark mark("mpsd::attention");
  const auto heads = [&](const at::Tensor& y) {
    return y
        .view({y.size(0), y.size(1), config_.num_attention_heads,
               config_.head_dim})
        .transpose(1, 2);
  };
  const double dropout =
      training_ ? config_.encoder.attention_probs_dropout_prob : 0;
  // With dropout all queries are computed, so that the masks have Transformers'
  // shape.
  const bool one_query = first_only && dropout == 0 && !layer.q.draws();
  const at::Tensor q = heads(Run(layer.q, one_query ? x.narrow(1, 0, 1) : x));
  const at::Tensor k = heads(Run(layer.k, x));
  const at::Tensor v = heads(Run(layer.v, x));
  NoteAttention(
      attention::BidirectionalName(q, k, dropout, options_.attention));
  at::Tensor out = attention::BidirectionalAttention(q, k, v, {}, dropout,
                                                     options_.attention)
                       .transpose(1, 2);
  if (first_only) out = out.narrow(1, 0, 1);
  return out.reshape({out.size(0), out.size(1), -1});
}

at::Tensor Vit::Drop(const at::Tensor& x, int64_t length) const {
  const double probability = config_.encoder.hidden_dropout_prob;
  if (!training_ || probability == 0) return x;
  return TokenDropout(x, probability, length);
}

bool Vit::DrawsDropout(const VitLayer& l) const {
  const spec::EncoderConfig& e = config_.encoder;
  const bool own = training_ && (e.hidden_dropout_prob > 0 ||
                                 e.attention_probs_dropout_prob > 0);
  return own || l.q.draws() || l.k.draws() || l.v.draws() || l.o.draws() ||
         l.up.draws() || l.down.draws();
}

std::vector<Linear*> Vit::Linears() {
  std::vector<Linear*> linears;
  for (VitLayer& l : layers_) {
    linears.insert(linears.end(), {&l.q, &l.k, &l.v, &l.o, &l.up, &l.down});
  }
  linears.push_back(&head_);
  return linears;
}

std::vector<NamedWeight> Vit::NamedWeights() {
  const std::string e = "vit.embeddings.";
  WeightList list;
  list.Add(e + "cls_token", class_token_);
  list.Add(e + "position_embeddings", positions_);
  list.Add(e + "patch_embeddings.projection.weight", patch_weight_);
  list.Add(e + "patch_embeddings.projection.bias", patch_bias_);
  for (VitLayer& l : layers_) {
    for (Linear* linear : {&l.q, &l.k, &l.v, &l.o}) list.Add(*linear);
    list.Add(l.attention_norm);
    list.Add(l.mlp_norm);
    list.Add(l.up);
    list.Add(l.down);
  }
  list.Add(norm_);
  list.Add(head_);
  return list.Take();
}

}  // namespace mpsd::model
