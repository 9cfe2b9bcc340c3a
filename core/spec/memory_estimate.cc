// SPDX-License-Identifier: Apache-2.0
#include "core/spec/memory_estimate.h"

#include <algorithm>
#include <limits>

#include "core/spec/gradient_choice.h"
#include "core/spec/modules.h"
#include "core/spec/query_blocks.h"
#include "core/spec/targets.h"

namespace mpsd::spec {
namespace {

using backend::MemoryPlace;
using backend::Traits;

constexpr double kFloat = 4;          // bytes
constexpr double kAdamCopies = 4;     // parameter, gradient, two moments
constexpr int64_t kLossChunk = 1024;  // label tokens per LM-head chunk
constexpr double kLogitsCopies = 3;   // logits, log-softmax, gradient
// Bytes a value of a quantised weight while its dense form is made: an int32
// index for each two values, the fp32 value, and the bf16 value or an fp32
// copy.
constexpr double kBytesOfMaking = 2 + 4 + 4;

int64_t Bytes(double value) {
  constexpr auto kMax = std::numeric_limits<int64_t>::max();
  return value >= static_cast<double>(kMax) ? kMax
                                            : static_cast<int64_t>(value);
}

double BaseBytes(const TrainSpec& spec) {
  return spec.training.bf16 ? 2 : kFloat;
}

// The tokens of one row.
double TokensPerRow(const TrainSpec& spec, const ModelConfig& m) {
  if (m.family == Family::kVision) return m.max_position_embeddings;
  const double length = spec.training.max_length;
  if (m.family == Family::kDecoder) return length;
  return std::min<double>(length,
                          m.max_position_embeddings - m.encoder.first_position);
}

double EncoderLayerBytesPerToken(const TrainSpec& spec, const ModelConfig& m) {
  const EncoderConfig& e = m.encoder;
  const double values = 8.0 * m.hidden_size + 2.0 * m.intermediate_size;
  double bytes = values * BaseBytes(spec) + kFloat * m.num_attention_heads;
  if (e.hidden_dropout_prob > 0) bytes += 2.0 * m.hidden_size;
  if (e.attention_probs_dropout_prob > 0) {
    bytes += m.num_attention_heads * TokensPerRow(spec, m) *
             (2 * BaseBytes(spec) + 1);
  }
  return bytes;
}

bool UsesExplicitStep(const TrainSpec& spec, const ModelConfig& m) {
  return ChooseGradients(spec, m).explicit_step;
}

double LayerBytesPerToken(const TrainSpec& spec, const ModelConfig& m) {
  if (m.family != Family::kDecoder) return EncoderLayerBytesPerToken(spec, m);
  // The explicit step keeps each norm's input only, and of the MLP only gate
  // and up: it computes the outputs again in the backward.
  const double share = UsesExplicitStep(spec, m) ? 2 : 4;
  const double hidden = share * m.hidden_size;
  const double attention = 2.0 * m.q_size() + 2.0 * m.kv_size();
  const double mlp = share * m.intermediate_size;
  return (hidden + attention + mlp) * BaseBytes(spec) +
         kFloat * m.num_attention_heads;
}

double AdapterBytesPerToken(const TrainSpec& spec, const ModelConfig& m) {
  if (spec.fine_tune_type != FineTuneType::kLora) return 0;
  const auto matches = MatchTargets(EffectiveLora(spec.lora, m), m);
  if (!matches.ok()) return 0;
  double bytes = 0;
  for (const TargetMatch& match : *matches) {
    bytes += kFloat * match.r;
    if (spec.lora.lora_dropout.value_or(0) > 0)
      bytes += kFloat * match.in_features;
  }
  return bytes;
}

double ActivationBytesPerToken(const TrainSpec& spec, const ModelConfig& m) {
  const double layers = m.num_hidden_layers;
  const double ends = 2.0 * m.hidden_size * BaseBytes(spec);
  const double adapters = AdapterBytesPerToken(spec, m);
  const double layer = LayerBytesPerToken(spec, m);
  if (spec.fine_tune_type == FineTuneType::kHead) return ends + layer;
  if (spec.training.recompute() == Recompute::kNone) {
    return ends + layers * layer + adapters;
  }
  const double inputs = layers * m.hidden_size * BaseBytes(spec);
  if (spec.training.recompute() == Recompute::kSelective &&
      UsesExplicitStep(spec, m)) {
    const double wide = 2.0 * m.intermediate_size * BaseBytes(spec);
    return ends + layers * (layer - wide) + wide + adapters;
  }
  return ends + inputs + layer + adapters / layers;
}

// Whether the explicit step may compute attention by blocks of queries, in the
// forward or the backward.
bool AttendsByBlocks(const TrainSpec& spec, const Traits& traits) {
  return traits.fused_attention != backend::FusedAttention::kByToken ||
         !spec.training.bf16;
}

// A layer's attention: the scores of one block of queries, and the masks.
double BlockBytes(const TrainSpec& spec, const ModelConfig& m,
                  const Traits& traits, double rows) {
  constexpr double kCopies = 3;
  if (!AttendsByBlocks(spec, traits)) return 0;
  const double length = TokensPerRow(spec, m);
  constexpr double kMost = int64_t{1} << 31;  // scores; no device computes more
  if (rows * length * m.num_attention_heads > kMost) return 0;
  const auto count = static_cast<double>(
      QueriesPerBlock(static_cast<int64_t>(rows), m.num_attention_heads,
                      static_cast<int64_t>(length), traits.cached_pieces));
  const double scores = rows * m.num_attention_heads * count * length;
  double masks = count * length;
  if (spec.training.packing || spec.training.padding_free.value_or(false)) {
    masks += kMostKeptMasks;
  } else if (traits.masks_for_products) {
    const double group = 1.0 * m.num_attention_heads / m.num_key_value_heads;
    masks += std::min(group * length * length, 1.0 * kMostKeptMasks);
  }
  return (scores * kCopies + masks) * BaseBytes(spec);
}

// The temporaries of one layer's backward.
double BackwardBytes(const TrainSpec& spec, const ModelConfig& m,
                     const Traits& traits, double rows) {
  if (!UsesExplicitStep(spec, m)) return 0;
  const double tokens = rows * TokensPerRow(spec, m);
  const double values = 3.0 * m.intermediate_size + 3.0 * m.hidden_size;
  return tokens * values * BaseBytes(spec) + BlockBytes(spec, m, traits, rows);
}

// The bytes that quantised linears save against dense ones.
double SavedByQuantization(const TrainSpec& spec, const ModelConfig& model) {
  QuantizationSpec q =
      model.quantization ? *model.quantization : spec.quantization_config;
  if (!q.enabled()) return 0;  // spares the walk over the modules
  double saved = 0, largest = 0;
  for (const Module& m : Modules(model)) {
    if (m.kind != Module::Kind::kLinear || !Quantizes(q, m.name)) continue;
    const auto weights = static_cast<double>(m.in_features) *
                         static_cast<double>(m.out_features);
    saved += weights * BaseBytes(spec) -
             QuantizedBytes(q, weights, static_cast<double>(m.out_features));
    largest = std::max(largest, weights);
  }
  return saved - largest * kBytesOfMaking;
}

// The weights in training precision: frozen, or casts of the masters that are
// being trained.
double WeightBytes(const TrainSpec& spec, const ModelConfig& model) {
  const bool masters_are_used =
      spec.fine_tune_type == FineTuneType::kFull && !spec.training.bf16;
  if (masters_are_used) return 0;
  return ParameterCount(model) * BaseBytes(spec) -
         SavedByQuantization(spec, model);
}

double LogitsBytes(const ModelConfig& model, double tokens, double rows) {
  const double values =
      model.num_labels > 0
          ? rows * model.num_labels
          : std::min<double>(tokens, kLossChunk) * model.vocab_size;
  return values * kLogitsCopies * kFloat;
}

bool Evaluates(const TrainSpec& spec) {
  return !spec.dataset.eval.empty() || spec.dataset.validation_split > 0;
}

double EvaluationBytes(const TrainSpec& spec, const ModelConfig& m,
                       const Traits& traits) {
  if (!Evaluates(spec)) return 0;
  double rows = static_cast<double>(spec.training.per_device_eval_batch_size);
  if (traits.silent_out_of_memory) {
    rows = std::min(
        rows, static_cast<double>(spec.training.per_device_train_batch_size));
  }
  const double tokens = rows * TokensPerRow(spec, m);
  const double attention = 2.0 * m.q_size() + 2.0 * m.kv_size();
  const double values =
      4.0 * m.hidden_size + attention + 3.0 * m.intermediate_size;
  return tokens * values * BaseBytes(spec) +
         (traits.attends_fused() ? 0 : tokens * attention * kFloat) +
         LogitsBytes(m, tokens, rows);
}

// The inputs of a step's micro-batches.
double InputBytes(const TrainSpec& spec, const ModelConfig& m,
                  const Traits& traits) {
  constexpr double kIntegers = 5 * sizeof(int64_t);
  const bool images = m.family == Family::kVision;
  const double side = m.vision.image_size;
  const double row = images ? side * side * m.vision.num_channels * kFloat
                            : TokensPerRow(spec, m) * kIntegers;
  const double micro_batch =
      row * static_cast<double>(spec.training.per_device_train_batch_size);
  const double step =
      micro_batch *
      static_cast<double>(spec.training.gradient_accumulation_steps);
  const double most =
      std::max(micro_batch, static_cast<double>(kStepInputBytes));
  const int copies = traits.memory == MemoryPlace::kShared ? 2 : 1;
  return copies * std::min(step, most);
}

double HeadParameters(ModelConfig model) {
  model.num_hidden_layers = 0;  // the head is outside of the blocks
  double count = 0;
  for (const Module& module : Modules(model)) {
    if (module.head) count += static_cast<double>(module.parameters());
  }
  return count;
}

double AdapterParameters(const TrainSpec& spec, const ModelConfig& model) {
  const LoraSpec lora = EffectiveLora(spec.lora, model);
  const auto matches = MatchTargets(lora, model);
  const auto saved = MatchModulesToSave(lora, model);
  if (!matches.ok() || !saved.ok()) return 0;
  double count = 0;
  for (const TargetMatch& match : *matches) {
    count += static_cast<double>(match.r) *
             static_cast<double>(match.in_features + match.out_features);
  }
  for (const Module& module : *saved) {
    count += static_cast<double>(module.parameters());
  }
  return count;
}

}  // namespace

MemoryEstimate EstimateMemory(const TrainSpec& spec, const ModelConfig& model) {
  return EstimateMemory(spec, model, backend::TraitsOf(spec.device));
}

MemoryEstimate EstimateMemory(const TrainSpec& spec, const ModelConfig& model,
                              const Traits& traits) {
  const auto rows =
      static_cast<double>(spec.training.per_device_train_batch_size);
  const double tokens = rows * TokensPerRow(spec, model);
  MemoryEstimate estimate;
  estimate.base_weights_bytes = Bytes(WeightBytes(spec, model));
  estimate.trainable_bytes =
      Bytes(TrainableParameterCount(spec, model) * kAdamCopies * kFloat);
  estimate.activations_bytes =
      Bytes(tokens * ActivationBytesPerToken(spec, model));
  estimate.logits_bytes = Bytes(LogitsBytes(model, tokens, rows));
  estimate.backward_bytes = Bytes(BackwardBytes(spec, model, traits, rows));
  estimate.evaluation_bytes = Bytes(EvaluationBytes(spec, model, traits));
  estimate.inputs_bytes = Bytes(InputBytes(spec, model, traits));
  const double step = static_cast<double>(estimate.activations_bytes) +
                      static_cast<double>(std::max(estimate.logits_bytes,
                                                   estimate.backward_bytes));
  estimate.total_bytes =
      Bytes(static_cast<double>(estimate.base_weights_bytes) +
            static_cast<double>(estimate.trainable_bytes) +
            static_cast<double>(estimate.inputs_bytes) +
            std::max(step, static_cast<double>(estimate.evaluation_bytes)));
  return estimate;
}

int64_t TrainableParameterCount(const TrainSpec& spec,
                                const ModelConfig& model) {
  switch (spec.fine_tune_type) {
    case FineTuneType::kFull:
      return ParameterCount(model);
    case FineTuneType::kHead:
      return Bytes(HeadParameters(model));
    case FineTuneType::kLora:
      break;
  }
  return Bytes(AdapterParameters(spec, model));
}

}  // namespace mpsd::spec
