// SPDX-License-Identifier: Apache-2.0
#include "core/spec/memory_estimate.h"

#include <algorithm>
#include <limits>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "core/spec/kept_values.h"
#include "core/spec/modules.h"
#include "core/spec/query_blocks.h"
#include "core/spec/targets.h"

namespace mpsd::spec {
namespace {

using backend::MemoryPlace;
using backend::Traits;

constexpr double kFloat = 4;       // bytes
constexpr double kAdamCopies = 4;  // parameter, gradient, two moments
// Label tokens at a time: under autograd (core/model/head_loss.h) and in the
// explicit step (core/explicit_step/head.cc), which takes fewer if the
// vocabulary is large.
constexpr double kLossChunk = 1024;
constexpr double kFewestLabels = 256;
constexpr int64_t kLogitsAtOnce = int64_t{1} << 25;
// Logits, softmax and derivative in fp32; in the explicit step, whose
// derivative overwrites the softmax, with the half-sized operand of a product.
constexpr double kLogitsCopies = 3, kExplicitLogitsCopies = 2.5;
// The same if the softmax overwrites the logits, measured: 1.98 to 2.13 on an
// H200, 1.9 on a CPU in bf16.
constexpr double kOverwrittenLogitsCopies = 2;
// Bytes per value of a quantised weight while its dense form is made: an int32
// index for each two values, the fp32 value, and the bf16 value or an fp32
// copy.
constexpr double kBytesOfMaking = 2 + 4 + 4;

int64_t Bytes(double value) {
  constexpr auto kMax = std::numeric_limits<int64_t>::max();
  return value >= static_cast<double>(kMax) ? kMax
                                            : static_cast<int64_t>(value);
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
    masks += std::min(rows * length * length, 1.0 * kMostKeptMasks);
  } else if (traits.masks_for_products) {
    const double group = 1.0 * m.num_attention_heads / m.num_key_value_heads;
    masks += std::min(group * length * length, 1.0 * kMostKeptMasks);
  }
  return (scores * kCopies + masks) * BaseBytes(spec);
}

// Autograd's weight gradients: the largest linear's, before it is added in
// fp32.
double WeightGradientBytes(const TrainSpec& spec, const ModelConfig& m) {
  if (spec.fine_tune_type != FineTuneType::kFull) return 0;
  const double largest = 1.0 * m.hidden_size * m.intermediate_size;
  return largest * (spec.training.bf16 ? 2 + kFloat : kFloat);
}

// The temporaries of one layer's backward, with the recomputed layer.
double BackwardBytes(const TrainSpec& spec, const ModelConfig& m,
                     const Traits& traits, double rows, double again) {
  const double tokens = rows * TokensPerRow(spec, m);
  const double h = m.hidden_size, i = m.intermediate_size;
  if (UsesExplicitStep(spec, m)) {
    const double mlp = tokens * (3 * i + 3 * h) * BaseBytes(spec);
    const double block = BlockBytes(spec, m, traits, rows);
    // The CPU's small pieces of attention take no more than the MLP before.
    return tokens * again +
           (traits.cached_pieces ? std::max(mlp, block) : mlp + block);
  }
  if (spec.fine_tune_type == FineTuneType::kHead) return 0;
  return tokens * (again + (2 * i + 2 * h) * BaseBytes(spec)) +
         WeightGradientBytes(spec, m);
}

// The bytes that quantised linears save compared with dense ones.
double SavedByQuantization(const TrainSpec& spec, const ModelConfig& model) {
  QuantizationSpec q =
      model.quantization ? *model.quantization : spec.quantization_config;
  if (!q.enabled()) return 0;  // avoids the walk over the modules
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

// The weights in training precision: frozen, or casts of the trained masters,
// which the backward keeps of the blocks' linears: of one block if it
// recomputes them.
double WeightBytes(const TrainSpec& spec, const ModelConfig& model) {
  if (spec.fine_tune_type != FineTuneType::kFull) {
    return ParameterCount(model) * BaseBytes(spec) -
           SavedByQuantization(spec, model);
  }
  if (!spec.training.bf16) return 0;
  double blocks = 0;
  for (const Module& module : Modules(model)) {
    if (module.layer >= 0) blocks += static_cast<double>(module.parameters());
  }
  const bool again = spec.training.recompute() != Recompute::kNone;
  return blocks * BaseBytes(spec) /
         (again ? static_cast<double>(model.num_hidden_layers) : 1);
}

// Whether a language model's head is trained: with the model, or with an
// adapter, where it computes in fp32.
enum class HeadUse { kFrozen, kTrained, kSaved };

HeadUse HeadUseOf(const TrainSpec& spec, const ModelConfig& model) {
  if (spec.fine_tune_type == FineTuneType::kFull) return HeadUse::kTrained;
  const auto saved = MatchModulesToSave(EffectiveLora(spec.lora, model), model);
  if (!saved.ok()) return HeadUse::kFrozen;
  for (const Module& module : *saved) {
    if (module.head) return HeadUse::kSaved;
  }
  return HeadUse::kFrozen;
}

// A language model's head with its loss under autograd, a chunk of labels at a
// time (core/model/head_loss.cc): first logits, their fp32 copies and
// derivative; then the derivative and the memory for the weight's gradient.
double AutogradHeadBytes(const TrainSpec& spec, const ModelConfig& model,
                         const Traits& traits, double tokens) {
  const double b = BaseBytes(spec);
  const double logits = std::min(tokens, kLossChunk) * model.vocab_size;
  const double weight = 1.0 * model.vocab_size * model.hidden_size;
  const double copies = b < kFloat ? b + 2 * kFloat : 2 * kFloat;
  const HeadUse use = HeadUseOf(spec, model);
  if (use == HeadUse::kFrozen) return logits * copies;
  // The dtype of the product, and a wider copy of its result.
  const double product = use == HeadUse::kSaved ? kFloat : b;
  const double widened = product < kFloat ? kFloat : 0;
  const double first =
      logits *
      (use == HeadUse::kSaved && b < kFloat ? copies + kFloat : copies);
  const double converted = b < kFloat ? product : 0;
  const double transposed = traits.transposed_left ? 0 : product;
  const double second =
      logits * (kFloat + converted + transposed) + weight * (product + widened);
  const double cast = product < kFloat ? product : 0;
  return weight * (kFloat + cast) + std::max(first, second);
}

// Whether the explicit step keeps the memory of its logits from one use to the
// next: one fp32 copy, which softmax and derivative overwrite.
bool KeepsLogits(const TrainSpec& spec, const ModelConfig& model,
                 const Traits& traits) {
  return UsesExplicitStep(spec, model) && traits.splits_products &&
         !spec.training.bf16;
}

double LogitsBytes(const TrainSpec& spec, const ModelConfig& model,
                   const Traits& traits, double tokens, double rows) {
  if (model.num_labels > 0) {
    return rows * model.num_labels * kLogitsCopies * kFloat;
  }
  if (!UsesExplicitStep(spec, model)) {
    return AutogradHeadBytes(spec, model, traits, tokens);
  }
  // Labels in multiples of 64.
  const int64_t at_once =
      kLogitsAtOnce / std::max<int64_t>(model.vocab_size, 1) / 64 * 64;
  const double most = std::max(kFewestLabels, static_cast<double>(at_once));
  double copies = kExplicitLogitsCopies;
  if (KeepsLogits(spec, model, traits)) {
    copies = 1;
  } else if (traits.softmax_in_place) {
    copies = kOverwrittenLogitsCopies;
  }
  return std::min(tokens, most) * model.vocab_size * copies * kFloat;
}

// Of an evaluation: a chunk of labels without gradients, and the last hidden
// states.
double EvaluatedLogitsBytes(const TrainSpec& spec, const ModelConfig& model,
                            double tokens, double rows) {
  if (model.num_labels > 0) {
    return rows * model.num_labels * kLogitsCopies * kFloat;
  }
  const double b = BaseBytes(spec);
  const double copies = b < kFloat ? b + 2 * kFloat : 2 * kFloat;
  return std::min(tokens, kLossChunk) * model.vocab_size * copies +
         tokens * 3 * model.hidden_size * b;
}

double EvaluationBytes(const TrainSpec& spec, const ModelConfig& m,
                       const Traits& traits) {
  if (!spec.dataset.evaluates()) return 0;
  double rows = static_cast<double>(spec.training.per_device_eval_batch_size);
  if (traits.silent_out_of_memory) {
    rows = std::min(
        rows, static_cast<double>(spec.training.per_device_train_batch_size));
  }
  const double tokens = rows * TokensPerRow(spec, m);
  const double attention = 2.0 * m.q_size() + 2.0 * m.kv_size();
  // A decoder's MLP adds gate, up and their product to the heads' values.
  const double values =
      m.family == Family::kDecoder
          ? 4.0 * m.hidden_size + attention + 3.0 * m.intermediate_size
          : 4.0 * m.hidden_size + 2.0 * m.intermediate_size;
  // The pixels as read, and on the device.
  const double side = m.vision.image_size;
  const double pixels = m.family != Family::kVision
                            ? 0
                            : rows * side * side * m.vision.num_channels *
                                  kFloat *
                                  (traits.memory == MemoryPlace::kOwn ? 1 : 2);
  const double layer =
      pixels + tokens * values * BaseBytes(spec) +
      (traits.attends_fused() ? 0 : tokens * attention * kFloat);
  return std::max(layer, EvaluatedLogitsBytes(spec, m, tokens, rows));
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
  model.num_hidden_layers = 0;  // the head is outside the blocks
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
  const Kept kept = KeptPerToken(spec, model, traits);
  estimate.activations_bytes = Bytes(tokens * kept.all);
  estimate.logits_bytes = Bytes(LogitsBytes(spec, model, traits, tokens, rows));
  estimate.backward_bytes =
      Bytes(BackwardBytes(spec, model, traits, rows, kept.layer));
  estimate.evaluation_bytes = Bytes(EvaluationBytes(spec, model, traits));
  estimate.inputs_bytes = Bytes(InputBytes(spec, model, traits));
  estimate.keeps_logits = KeepsLogits(spec, model, traits);
  estimate.Add();
  return estimate;
}

void MemoryEstimate::Add() {
  const auto logits = static_cast<double>(logits_bytes);
  const auto backward = static_cast<double>(backward_bytes);
  const double kept = keeps_logits ? logits : 0;
  const double step = static_cast<double>(activations_bytes) +
                      std::max(logits, kept + backward);
  total_bytes = Bytes(
      static_cast<double>(base_weights_bytes) +
      static_cast<double>(trainable_bytes) + static_cast<double>(inputs_bytes) +
      std::max(step, static_cast<double>(evaluation_bytes) + kept));
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
