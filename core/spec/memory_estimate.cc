// SPDX-License-Identifier: Apache-2.0
#include "core/spec/memory_estimate.h"

#include <algorithm>
#include <limits>

#include "core/spec/targets.h"

namespace mpsd::spec {
namespace {

constexpr double kFloat = 4;          // bytes
constexpr double kAdamCopies = 4;     // parameter, gradient, two moments
constexpr int64_t kLossChunk = 1024;  // label tokens per LM-head chunk
constexpr double kLogitsCopies = 3;   // logits, log-softmax, gradient

int64_t Bytes(double value) {
  constexpr auto kMax = std::numeric_limits<int64_t>::max();
  return value >= static_cast<double>(kMax) ? kMax
                                            : static_cast<int64_t>(value);
}

double BaseBytes(const TrainSpec& spec) {
  return spec.training.bf16 ? 2 : kFloat;
}

double LayerBytesPerToken(const TrainSpec& spec, const ModelConfig& m) {
  const double hidden = 4.0 * m.hidden_size;
  const double attention = 2.0 * m.q_size() + 2.0 * m.kv_size();
  const double mlp = 4.0 * m.intermediate_size;
  return (hidden + attention + mlp) * BaseBytes(spec) +
         kFloat * m.num_attention_heads;
}

double AdapterBytesPerToken(const TrainSpec& spec, const ModelConfig& m) {
  const auto matches = MatchTargets(spec.lora, m);
  if (!matches.ok()) return 0;
  double bytes = 0;
  for (const TargetMatch& match : *matches) {
    bytes += kFloat * match.r;
    if (spec.lora.lora_dropout > 0) bytes += kFloat * match.in_features;
  }
  return bytes;
}

double ActivationBytesPerToken(const TrainSpec& spec, const ModelConfig& m) {
  const double layers = m.num_hidden_layers;
  const double ends = 2.0 * m.hidden_size * BaseBytes(spec);
  const double adapters = AdapterBytesPerToken(spec, m);
  const double layer = LayerBytesPerToken(spec, m);
  if (!spec.training.gradient_checkpointing) {
    return ends + layers * layer + adapters;
  }
  const double inputs = layers * m.hidden_size * BaseBytes(spec);
  return ends + inputs + layer + adapters / layers;
}

}  // namespace

MemoryEstimate EstimateMemory(const TrainSpec& spec, const ModelConfig& model) {
  const TrainingSpec& t = spec.training;
  const double tokens = static_cast<double>(t.per_device_train_batch_size) *
                        static_cast<double>(t.max_length);
  const double chunk = std::min<double>(tokens, kLossChunk);
  MemoryEstimate estimate;
  estimate.base_weights_bytes = Bytes(ParameterCount(model) * BaseBytes(spec));
  estimate.adapter_bytes =
      Bytes(TrainableParameterCount(spec, model) * kAdamCopies * kFloat);
  estimate.activations_bytes =
      Bytes(tokens * ActivationBytesPerToken(spec, model));
  estimate.logits_bytes =
      Bytes(chunk * model.vocab_size * kLogitsCopies * kFloat);
  estimate.total_bytes =
      Bytes(static_cast<double>(estimate.base_weights_bytes) +
            static_cast<double>(estimate.adapter_bytes) +
            static_cast<double>(estimate.activations_bytes) +
            static_cast<double>(estimate.logits_bytes));
  return estimate;
}

int64_t TrainableParameterCount(const TrainSpec& spec,
                                const ModelConfig& model) {
  const auto matches = MatchTargets(spec.lora, model);
  const auto saved = MatchModulesToSave(spec.lora, model);
  if (!matches.ok() || !saved.ok()) return 0;
  double count = 0;
  for (const TargetMatch& match : *matches) {
    count += static_cast<double>(match.r) *
             static_cast<double>(match.in_features + match.out_features);
  }
  for (const Module& module : *saved) {
    count += static_cast<double>(module.parameters());
  }
  return Bytes(count);
}

}  // namespace mpsd::spec
