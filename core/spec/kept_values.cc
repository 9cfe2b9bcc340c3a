// SPDX-License-Identifier: Apache-2.0
#include "core/spec/kept_values.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "core/spec/gradient_choice.h"
#include "core/spec/modules.h"
#include "core/spec/targets.h"

namespace mpsd::spec {
namespace {

using backend::Traits;

constexpr double kFloat = 4;  // bytes

// LoRA's matches, and the lowest layer that has one.
struct Adapters {
  std::vector<TargetMatch> matches;
  int64_t lowest = 0;
};

Adapters AdaptersOf(const TrainSpec& spec, const ModelConfig& m) {
  Adapters adapters;
  if (spec.fine_tune_type != FineTuneType::kLora) return adapters;
  auto matches = MatchTargets(EffectiveLora(spec.lora, m), m);
  if (!matches.ok()) return adapters;
  adapters.matches = *std::move(matches);
  std::set<std::string_view> names;
  for (const TargetMatch& match : adapters.matches) names.insert(match.name);
  adapters.lowest = m.num_hidden_layers;
  for (const Module& module : Modules(m)) {
    if (module.layer >= 0 && names.contains(module.name)) {
      adapters.lowest = std::min(adapters.lowest, module.layer);
    }
  }
  return adapters;
}

// Bytes per number of a dropout mask: if random numbers are drawn in order it
// is the factors themselves, else a byte.
double MaskBytes(const Traits& traits, double number) {
  return traits.draws_in_order ? number : 1;
}

// Whether a linear keeps its input although its weight is frozen. MPS has its
// own kernel for at::linear, which does; elsewhere it is a product, which keeps
// an input only for the weight's gradient.
bool KeepsFrozenInputs(const Traits& traits) {
  return traits.fused_attention == backend::FusedAttention::kNone;
}

// An encoder's values of the MLP: the activation's input, and its result, which
// ReLU alone keeps.
double InnerValues(const ModelConfig& m) {
  const bool relu = m.encoder.hidden_act == "relu";
  return (relu ? 1.0 : 2.0) * static_cast<double>(m.intermediate_size);
}

// Per token and layer, bytes.
double EncoderLayer(const TrainSpec& spec, const ModelConfig& m,
                    const Traits& traits) {
  const EncoderConfig& e = m.encoder;
  const double b = BaseBytes(spec), h = m.hidden_size;
  double bytes =
      (8.0 * h + InnerValues(m)) * b + kFloat * m.num_attention_heads;
  if (e.hidden_dropout_prob > 0) {
    // DistilBERT has none after its attention.
    const int masks = m.model_type == "distilbert" ? 1 : 2;
    bytes += masks * h * MaskBytes(traits, b);
  }
  if (e.attention_probs_dropout_prob > 0) {
    // CUDA's kernels draw the mask again in the backward.
    if (traits.fused_attention != backend::FusedAttention::kByToken) {
      bytes += m.num_attention_heads * TokensPerRow(spec, m) *
               (2 * b + MaskBytes(traits, b));
    }
  } else if (!traits.attends_fused()) {
    bytes += 4 * h * (kFloat - b);  // tiles keep fp32
  }
  return bytes;
}

// The part of it that the last layer saves: after its attention only the first
// token continues.
double EncoderEnd(const TrainSpec& spec, const ModelConfig& m) {
  return (3.0 * m.hidden_size + InnerValues(m)) * BaseBytes(spec);
}

double ExplicitLayer(const TrainSpec& spec, const ModelConfig& m) {
  // Only each norm's input, and of the MLP only gate and up: the outputs are
  // recomputed in the backward.
  double values = 2.0 * m.hidden_size + 2.0 * m.q_size() + 2.0 * m.kv_size() +
                  2.0 * m.intermediate_size;
  if (m.qk_norm) values += m.q_size() + m.kv_size();
  return values * BaseBytes(spec) + kFloat * m.num_attention_heads;
}

double AutogradDecoderLayer(const TrainSpec& spec, const ModelConfig& m,
                            const Traits& traits) {
  const double b = BaseBytes(spec);
  // The input in fp32 and the output; trained weights need what they scale.
  double norms = 2 * (kFloat + b);
  if (spec.fine_tune_type == FineTuneType::kFull) norms += 2 * kFloat;
  double bytes = norms * m.hidden_size + 4.0 * m.intermediate_size * b +
                 kFloat * m.num_attention_heads;
  if (traits.attends_fused()) {
    // Keys and values are repeated for each head.
    return bytes + 4.0 * m.q_size() * b;
  }
  const double attention = 2.0 * m.q_size() + 2.0 * m.kv_size();
  return bytes + attention * kFloat + m.q_size() * b;
}

double LayerBytesPerToken(const TrainSpec& spec, const ModelConfig& m,
                          const Traits& traits) {
  if (m.family != Family::kDecoder) return EncoderLayer(spec, m, traits);
  if (UsesExplicitStep(spec, m)) return ExplicitLayer(spec, m);
  return AutogradDecoderLayer(spec, m, traits);
}

// Per token, of all layers. Autograd runs adapters in fp32: a bf16 input is
// kept as an fp32 copy for each of them, and so is dropout's result.
double AdapterBytesPerToken(const TrainSpec& spec, const ModelConfig& m,
                            const Traits& traits, const Adapters& adapters) {
  const bool drops = spec.lora.lora_dropout.value_or(0) > 0;
  const bool explicit_step = UsesExplicitStep(spec, m);
  double bytes = 0;
  for (const TargetMatch& match : adapters.matches) {
    const double in = static_cast<double>(match.in_features);
    bytes += kFloat * static_cast<double>(match.r);
    if (drops) bytes += in * (explicit_step ? 1 : MaskBytes(traits, kFloat));
    if (!explicit_step && (drops || spec.training.bf16)) bytes += kFloat * in;
  }
  return bytes;
}

// Per token, of all layers: the inputs of frozen linears that are counted with
// the layers but not kept. In bf16 an adapter keeps its own copy.
double UnkeptBytesPerToken(const TrainSpec& spec, const ModelConfig& m,
                           const Traits& traits, const Adapters& adapters) {
  if (spec.fine_tune_type != FineTuneType::kLora || UsesExplicitStep(spec, m) ||
      KeepsFrozenInputs(traits)) {
    return 0;
  }
  std::set<std::string_view> adapted;
  for (const TargetMatch& match : adapters.matches) adapted.insert(match.name);
  // Whether a layer's queries, keys and values, the linear of the attention's
  // output, the MLP's first linears, and its last one keep their input, in this
  // order.
  struct Layer {
    int linears = 0;
    bool qkv = false, out = false, up = false, down = false;
  };
  std::vector<Layer> layers(m.num_hidden_layers);
  const double b = BaseBytes(spec);
  for (const Module& module : Modules(m)) {
    if (module.layer < 0 || module.kind != Module::Kind::kLinear) continue;
    constexpr int kQkv = 3;
    Layer& layer = layers[module.layer];
    const int index = layer.linears++;
    const bool keeps = b == kFloat && adapted.contains(module.name);
    const int last = m.family == Family::kDecoder ? 6 : 5;
    if (index < kQkv) {
      layer.qkv = layer.qkv || keeps;
    } else if (index == last) {
      layer.down = keeps;
    } else if (index == kQkv) {
      layer.out = keeps;
    } else {
      layer.up = layer.up || keeps;
    }
  }
  // Fused attention keeps its output itself; probabilities do not need it.
  const bool fused =
      traits.fused_attention == backend::FusedAttention::kByToken ||
      m.encoder.attention_probs_dropout_prob == 0;
  double values = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (!layers[i].qkv) values += m.hidden_size;
    if (!layers[i].out && !fused) values += m.hidden_size;
    // An encoder's last layer has one token there.
    if (m.family != Family::kDecoder && i + 1 == layers.size()) break;
    if (!layers[i].up) values += m.hidden_size;
    if (!layers[i].down && m.encoder.hidden_act != "relu") {
      values += m.intermediate_size;
    }
  }
  return values * b;
}

}  // namespace

double BaseBytes(const TrainSpec& spec) {
  return spec.training.bf16 ? 2 : kFloat;
}

double TokensPerRow(const TrainSpec& spec, const ModelConfig& m) {
  if (m.family == Family::kVision) return m.max_position_embeddings;
  const double length = spec.training.max_length;
  if (m.family == Family::kDecoder) return length;
  return std::min<double>(length,
                          m.max_position_embeddings - m.encoder.first_position);
}

bool UsesExplicitStep(const TrainSpec& spec, const ModelConfig& m) {
  return ChooseGradients(spec, m).explicit_step;
}

Kept KeptPerToken(const TrainSpec& spec, const ModelConfig& m,
                  const Traits& traits) {
  const double b = BaseBytes(spec), layers = m.num_hidden_layers;
  const double ends = 2.0 * m.hidden_size * b;
  const double layer = LayerBytesPerToken(spec, m, traits);
  if (spec.fine_tune_type == FineTuneType::kHead) return {ends + layer, 0};
  const Adapters adapters = AdaptersOf(spec, m);
  const double adapted = AdapterBytesPerToken(spec, m, traits, adapters) -
                         UnkeptBytesPerToken(spec, m, traits, adapters);
  const bool explicit_step = UsesExplicitStep(spec, m);
  // The explicit step keeps nothing below the lowest adapter.
  const double taped =
      explicit_step ? layers - static_cast<double>(adapters.lowest) : layers;
  if (spec.training.recompute() == Recompute::kNone) {
    const double end = m.family == Family::kDecoder ? 0 : EncoderEnd(spec, m);
    return {ends + taped * layer + adapted - end, 0};
  }
  if (spec.training.recompute() == Recompute::kSelective && explicit_step) {
    const double wide = 2.0 * m.intermediate_size * b;
    return {ends + taped * (layer - wide) + adapted, wide};
  }
  const double inputs = taped * m.hidden_size * b;
  // The explicit step keeps the small part of adapters, autograd nothing.
  if (explicit_step) return {ends + inputs + adapted, layer};
  return {ends + inputs, layer + adapted / layers};
}

}  // namespace mpsd::spec
