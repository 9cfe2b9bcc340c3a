// SPDX-License-Identifier: Apache-2.0
#include "core/model/decoder.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/device/block_mark.h"
#include "core/device/device.h"

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

int64_t DecoderInputs::longest() const {
  return segment_lengths.empty() ? input_ids.size(1)
                                 : *std::max_element(segment_lengths.begin(),
                                                     segment_lengths.end());
}

at::Tensor Decoder::Hidden(const DecoderInputs& inputs) const {
  std::optional<profile::BlockMark> embedding("mpsd::embedding");
  at::Tensor x = Embed(inputs.input_ids);
  at::Tensor positions = inputs.position_ids;
  if (!positions.defined()) {
    const at::Tensor& ids = inputs.input_ids;
    positions = at::arange(ids.size(1), ids.options()).unsqueeze(0);
  }
  std::map<spec::LayerRope, RotaryTable> tables;
  for (const DecoderLayer& layer : layers_) {
    if (tables.contains(layer.rope)) continue;
    tables[layer.rope] = Table(layer.rope, positions, inputs.longest());
  }
  embedding.reset();
  for (size_t i = 0; i < layers_.size(); ++i) {
    // Captured by value: a recomputed block runs again after this call has
    // returned.
    auto run = [this, i,
                context = Context{tables[layers_[i].rope], inputs.segment_ids,
                                  inputs.cache}](const at::Tensor& in) {
      return RunLayer(i, in, context);
    };
    x = RunBlock(i, run, x, DrawsDropout(layers_[i]));
  }
  if (inputs.cache != nullptr) inputs.cache->Advance(x.size(1));
  const at::Tensor n = norm_.Forward(x);
  return head_scale() == 1 ? n : n * head_scale();
}

at::Tensor Decoder::Embed(const at::Tensor& ids) const {
  const at::Tensor x = embedding_.Forward(ids, dtype());
  const double scale = embedding_scale();
  return scale == 1 ? x : x * scale;
}

double Decoder::embedding_scale() const {
  const double scale = config_.embedding_scale;
  if (!config_.rounds_embedding_scale) return scale;
  return at::full({}, scale, dtype()).item<double>();
}

RotaryTable Decoder::Table(spec::LayerRope rope, const at::Tensor& positions,
                           int64_t longest) const {
  if (rope == spec::LayerRope::kNone) return {};
  return (rope == spec::LayerRope::kLocal ? local_rotary_ : rotary_)
      .Table(positions, dtype(), longest);
}

namespace {

at::Tensor MaybeNormed(const at::Tensor& x,
                       const std::optional<RmsNorm>& norm) {
  return norm ? norm->Forward(x) : x;
}

}  // namespace

at::Tensor Decoder::Add(const at::Tensor& x, const at::Tensor& added,
                        const std::optional<RmsNorm>& norm) const {
  const double scale = config_.residual_scale;
  const at::Tensor n = MaybeNormed(added, norm);
  return scale == 1 ? x + n : at::add(x, n, scale);
}

at::Tensor Decoder::Logits(const DecoderInputs& inputs) const {
  return Capped(head_.Forward(Hidden(inputs)), head_.softcap);
}

at::Tensor Decoder::Attend(size_t index, const at::Tensor& x,
                           const Context& context) const {
  const profile::BlockMark block("mpsd::attention");
  const DecoderLayer& layer = layers_[index];
  const int64_t rows = x.size(0), length = x.size(1);
  auto heads = [&](const at::Tensor& y, int64_t n) {
    return y.view({rows, length, n, config_.head_dim});
  };
  at::Tensor q = layer.q.Forward(x), k, v;
  if (config_.fused) {
    const auto parts = q.split_with_sizes(
        {config_.q_size(), config_.kv_size(), config_.kv_size()}, -1);
    q = parts[0];
    k = parts[1];
    v = parts[2];
  } else {
    k = layer.k.Forward(x);
    v = layer.v.Forward(x);
  }
  if (config_.qk_norm_whole) {
    q = MaybeNormed(q, layer.q_norm);
    k = MaybeNormed(k, layer.k_norm);
  }
  q = heads(q, config_.num_attention_heads);
  k = heads(k, config_.num_key_value_heads);
  v = heads(v, config_.num_key_value_heads);
  if (!config_.qk_norm_whole) {
    q = MaybeNormed(q, layer.q_norm);
    k = MaybeNormed(k, layer.k_norm);
  }
  NoteAttention(
      attention::CausalName(options_.attention, config_.attention_softcap));
  attention::AttentionMask mask{context.segments, layer.window};
  mask.scale = config_.attention_scale;
  mask.softcap = config_.attention_softcap;
  q = Rotary::Apply(q.transpose(1, 2), context.table);
  k = Rotary::Apply(k.transpose(1, 2), context.table);
  v = v.transpose(1, 2);
  KeyValueCache* const cache = context.cache;
  if (cache != nullptr) cache->Store(index, k, v);
  const at::Tensor out =
      cache != nullptr && cache->length() > 0
          ? cache->Attend(index, q, mask)
          : attention::CausalAttention(q, k, v, mask, options_.attention);
  return layer.o.Forward(out.transpose(1, 2).reshape({rows, length, -1}));
}

at::Tensor Decoder::RunLayer(size_t index, const at::Tensor& x,
                             const Context& context) const {
  const DecoderLayer& layer = layers_[index];
  const at::Tensor h =
      Add(x, Attend(index, MaybeNormed(x, layer.attention_norm), context),
          layer.attention_out_norm);
  const profile::BlockMark mark("mpsd::mlp");
  const at::Tensor n = MaybeNormed(h, layer.mlp_norm);
  // Gate before up: dropout draws its masks in the order of PEFT's forward.
  at::Tensor gate = layer.gate.Forward(n), up;
  if (config_.fused) {
    const auto parts = gate.chunk(2, -1);
    gate = parts[0].contiguous();
    up = parts[1].contiguous();
  } else {
    up = layer.up.Forward(n);
  }
  return Add(h, layer.down.Forward(Activate(gate, config_.hidden_act) * up),
             layer.mlp_out_norm);
}

std::vector<Linear*> Decoder::Linears() {
  std::vector<Linear*> linears;
  for (DecoderLayer& l : layers_) {
    if (config_.fused) {
      linears.insert(linears.end(), {&l.o, &l.q, &l.gate, &l.down});
    } else {
      linears.insert(linears.end(),
                     {&l.q, &l.k, &l.v, &l.o, &l.gate, &l.up, &l.down});
    }
  }
  linears.push_back(&head_);
  return linears;
}

std::vector<NamedWeight> Decoder::NamedWeights() {
  WeightList list;
  list.Add(embedding_);
  for (DecoderLayer& l : layers_) {
    if (config_.fused) list.Add(l.o);
    for (Linear* linear : {&l.q, &l.k, &l.v}) list.Add(*linear);
    if (!config_.fused) list.Add(l.o);
    if (l.q_norm) list.Add(*l.q_norm);
    if (l.k_norm) list.Add(*l.k_norm);
    for (Linear* linear : {&l.gate, &l.up, &l.down}) list.Add(*linear);
    for (auto* norm : {&l.attention_norm, &l.attention_out_norm, &l.mlp_norm,
                       &l.mlp_out_norm}) {
      if (*norm) list.Add(**norm);
    }
  }
  list.Add(norm_);
  // A language model's loss adds up the gradients of chunks in the dtype of the
  // head's weight.
  list.Add(head_.name + ".weight", head_.weight,
           config_.num_labels > 0 ? &head_.weight : &head_.copy);
  return list.Take();
}

class DecoderLoader {
 public:
  DecoderLoader(const WeightSource& source, const spec::ModelConfig& config,
                const std::function<void(double)>& progress)
      : source_(source),
        c_(config),
        progress_(progress),
        reader_(source, "model.", config.initializer_range) {}

  absl::StatusOr<std::unique_ptr<Decoder>> Load() {
    const std::string stored = DecideHead();
    std::unique_ptr<Decoder> model(new Decoder(c_, source_));
    model->embedding_ = reader_.MakeEmbedding(stored, c_.vocab_size,
                                              c_.hidden_size, c_.pad_token_id);
    model->embedding_.name = kEmbedding;
    model->layers_.resize(c_.num_hidden_layers);
    for (int64_t i = 0; i < c_.num_hidden_layers && reader_.status().ok();
         ++i) {
      LoadLayer(i, model->layers_[i]);
      if (progress_) progress_(double(i + 1) / c_.num_hidden_layers);
    }
    model->norm_ = Norm("model.norm", c_.hidden_size);
    LoadHead(*model);
    if (!reader_.status().ok()) return reader_.status();
    model->fresh_ = reader_.fresh_modules();
    model->report_ = reader_.Report(c_.family);
    model->report_.untied = untied_;
    return model;
  }

 private:
  // Decides whether head and embedding are tied; returns the module of the
  // embedding in the file.
  std::string DecideHead() {
    const bool tied = c_.tie_word_embeddings && c_.num_labels == 0;
    if (!tied || source_.weights == nullptr) return kEmbedding;
    const auto found = FindTiedHead(
        *source_.weights,
        reader_.StoredName(absl::StrCat(kEmbedding, ".weight")), source_.dtype);
    if (!found.ok()) {
      reader_.Fail(found.status());
      return kEmbedding;
    }
    untied_ = *found == TiedHead::kBoth;
    if (untied_) c_.tie_word_embeddings = false;
    if (*found == TiedHead::kHead) return kHead;
    if (!untied_) reader_.MarkUsed(kHeadWeight);
    return kEmbedding;
  }

  void LoadLayer(int64_t i, DecoderLayer& layer) {
    const std::string p = absl::StrCat("model.layers.", i, ".");
    const std::string a = p + "self_attn.", m = p + "mlp.";
    const auto linear = [&](std::string name, int64_t out, int64_t in,
                            bool bias) {
      return reader_.MakeLinear(name, out, in, bias);
    };
    const int64_t width = c_.hidden_size, inner = c_.intermediate_size;
    if (c_.fused) {
      layer.o = linear(a + "o_proj", width, c_.q_size(), c_.o_bias);
      layer.q = linear(a + "qkv_proj", c_.q_size() + 2 * c_.kv_size(), width,
                       c_.qkv_bias);
      layer.gate = linear(m + "gate_up_proj", 2 * inner, width, c_.mlp_bias);
    } else {
      const at::Tensor qk = PlaceOfBoth(a + "q_proj", a + "k_proj");
      layer.q = linear(a + "q_proj", c_.q_size(), width, c_.qkv_bias);
      MoveWeight(layer.q, qk, 0);
      layer.k = linear(a + "k_proj", c_.kv_size(), width, c_.qkv_bias);
      MoveWeight(layer.k, qk, c_.q_size());
      layer.v = linear(a + "v_proj", c_.kv_size(), width, c_.qkv_bias);
      layer.o = linear(a + "o_proj", width, c_.q_size(), c_.o_bias);
    }
    if (c_.qk_norm) {
      layer.q_norm = Norm(a + "q_norm", c_.q_norm_size());
      layer.k_norm = Norm(a + "k_norm", c_.k_norm_size());
    }
    if (!c_.fused) {
      layer.gate = linear(m + "gate_proj", inner, width, c_.mlp_bias);
      layer.up = linear(m + "up_proj", inner, width, c_.mlp_bias);
    }
    layer.down = linear(m + "down_proj", width, inner, c_.mlp_bias);
    const auto norm = [&](const std::string& name) {
      return name.empty() ? std::nullopt
                          : std::optional<RmsNorm>(Norm(p + name, width));
    };
    layer.attention_norm = norm(c_.norms.attention);
    layer.attention_out_norm = norm(c_.norms.attention_output);
    layer.mlp_norm = norm(c_.norms.mlp);
    layer.mlp_out_norm = norm(c_.norms.mlp_output);
    if (!c_.sliding_window.empty()) layer.window = c_.sliding_window[i];
    if (!c_.rope.empty()) layer.rope = c_.rope[i];
  }

  // Memory for the adjacent weights of q and k, so that one GEMM computes both;
  // undefined if they are quantised or GEMMs are cheap to call. Allocated
  // before either is read: the peak is then one weight above the weights.
  at::Tensor PlaceOfBoth(const std::string& q, const std::string& k) const {
    if (device::TraitsOf(source_.device).cached_pieces || c_.quantization ||
        spec::Quantizes(source_.quantization, q) ||
        spec::Quantizes(source_.quantization, k)) {
      return {};
    }
    return at::empty({c_.q_size() + c_.kv_size(), c_.hidden_size},
                     at::device(source_.device).dtype(source_.dtype));
  }

  static void MoveWeight(Linear& linear, const at::Tensor& place, int64_t row) {
    if (!linear.weight.defined() || !place.defined()) return;
    const at::Tensor rows = place.narrow(0, row, linear.weight.size(0));
    rows.copy_(linear.weight);
    linear.weight = rows;
  }

  void LoadHead(Decoder& model) {
    if (c_.num_labels > 0) {
      model.head_ =
          reader_.MakeHead("score", c_.num_labels, c_.hidden_size, false);
    } else if (c_.tie_word_embeddings) {
      model.head_.name = kHead;
      model.head_.weight = model.embedding_.weight;
    } else {
      if (source_.weights != nullptr && !reader_.Contains(kHeadWeight)) {
        reader_.Fail(absl::NotFoundError(absl::StrCat(
            "the model has no weight \"", kHeadWeight,
            "\"; if its head is its embedding, config.json must say "
            "\"tie_word_embeddings\": true")));
      }
      model.head_ =
          reader_.MakeLinear(kHead, c_.vocab_size, c_.hidden_size, false);
    }
    if (c_.num_labels == 0) model.head_.softcap = c_.logits_softcap;
  }

  RmsNorm Norm(const std::string& name, int64_t size) {
    return reader_.MakeRmsNorm(name, size, c_.rms_norm_eps, c_.norms_add_one);
  }

  static constexpr char kEmbedding[] = "model.embed_tokens";
  static constexpr char kHead[] = "lm_head";

  const WeightSource& source_;
  spec::ModelConfig c_;  // adjusted to the file's tensors
  const std::function<void(double)>& progress_;
  WeightReader reader_;
  bool untied_ = false;
};

absl::StatusOr<std::unique_ptr<Decoder>> Decoder::Load(
    const WeightSource& source, const spec::ModelConfig& config,
    const std::function<void(double)>& progress) {
  return DecoderLoader(source, config, progress).Load();
}

absl::StatusOr<std::unique_ptr<Decoder>> Decoder::Load(
    const tensorfile::Weights& weights, const spec::ModelConfig& config,
    at::Device device, at::ScalarType dtype,
    const std::function<void(double)>& progress) {
  return Load(WeightSource{&weights, device, dtype}, config, progress);
}

}  // namespace mpsd::model
