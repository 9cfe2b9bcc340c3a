// SPDX-License-Identifier: Apache-2.0
#include "core/spec/job_layers.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace mpsd::spec {

namespace {

// Modules of LoRA by name.
struct LoraNames {
  std::unordered_map<std::string_view, double> ranks;
  std::unordered_set<std::string_view> saved;
};

LoraNames MatchLora(const TrainSpec& spec, const ModelConfig& model,
                    JobLayers& job) {
  LoraNames names;
  if (spec.fine_tune_type != FineTuneType::kLora) return names;
  const LoraSpec lora = EffectiveLora(spec.lora, model);
  auto matches = MatchTargets(lora, model);
  auto saved = MatchModulesToSave(lora, model);
  job.valid_lora = matches.ok() && saved.ok();
  if (matches.ok()) job.matches = *std::move(matches);
  if (saved.ok()) job.saved = *std::move(saved);
  for (const TargetMatch& match : job.matches) {
    names.ranks.emplace(match.name, static_cast<double>(match.r));
  }
  for (const Module& module : job.saved) names.saved.insert(module.name);
  return names;
}

// Blocks begin with q, k, v and o and end with down, except fused ones.
LinearGroup GroupOf(size_t index, const ModelConfig& model) {
  if (model.fused) {
    constexpr LinearGroup kFused[] = {kOut, kQkv, kUp, kDown};
    return kFused[index];
  }
  const size_t last = model.family == Family::kDecoder ? 6 : 5;
  return index < 3 ? kQkv : index == 3 ? kOut : index == last ? kDown : kUp;
}

// `below`: whether the embeddings are trained.
void DecideInputGradients(bool below, std::vector<JobLayer>& layers) {
  for (JobLayer& layer : layers) {
    for (int group = 0; group < kLinearGroups; ++group) {
      layer.wants_input[group] = below;
      for (const JobLinear& linear : layer.groups[group]) {
        below = below || linear.rank > 0 || linear.trained;
      }
    }
    layer.any_backward = below;
  }
}

}  // namespace

bool JobLayer::HasAdapter(LinearGroup group) const {
  return std::any_of(groups[group].begin(), groups[group].end(),
                     [](const JobLinear& linear) { return linear.rank > 0; });
}

JobLayers LayersOf(const TrainSpec& spec, const ModelConfig& model) {
  JobLayers job;
  const LoraNames lora = MatchLora(spec, model, job);
  const bool full = spec.fine_tune_type == FineTuneType::kFull;
  const QuantizationSpec& quantization =
      model.quantization ? *model.quantization : spec.quantization_config;
  job.layers.resize(static_cast<size_t>(model.num_hidden_layers));
  std::vector<size_t> linears(job.layers.size());
  bool embedding_trained = full;
  for (const Module& module : Modules(model)) {
    const bool trained = full || lora.saved.contains(module.name);
    const auto rank = lora.ranks.find(module.name);
    const double r = rank == lora.ranks.end() ? 0 : rank->second;
    const auto parameters = static_cast<double>(module.parameters());
    if (module.kind == Module::Kind::kEmbedding) {
      embedding_trained = embedding_trained || trained;
      job.embedding_parameters += parameters;
    }
    if (module.head) job.head_parameters += parameters;
    const bool linear = module.kind == Module::Kind::kLinear;
    if (module.layer < 0) {
      if (!linear || !module.head) continue;
      job.trained_head = job.trained_head || trained;
      job.head_rank = std::max(job.head_rank, r);
      continue;
    }
    JobLayer& layer = job.layers[module.layer];
    layer.parameters += parameters;
    if (!linear) continue;
    const size_t index = linears[module.layer]++;
    layer.groups[GroupOf(index, model)].push_back(
        {.in = static_cast<double>(module.in_features),
         .out = static_cast<double>(module.out_features),
         .rank = r,
         .trained = trained,
         .value = index == 2 && !model.fused,
         .quantized =
             quantization.enabled() && Quantizes(quantization, module.name)});
  }
  DecideInputGradients(embedding_trained, job.layers);
  return job;
}

GradientChoice ChooseGradients(const TrainSpec& spec,
                               const ModelConfig& config) {
  const bool language_model =
      config.family == Family::kDecoder && spec.task == Task::kCausalLm;
  if (!language_model || spec.gradients == Gradients::kAutograd) return {};
  if (spec.fine_tune_type == FineTuneType::kLora &&
      !spec.lora.modules_to_save.empty()) {
    return {false, "some of the model's own weights are trained"};
  }
  if (spec.preference.enabled() && LayersOf(spec, config).head_rank > 0) {
    return {false,
            "the head of a model that learns preferences has an adapter"};
  }
  return {true, ""};
}

namespace {

// Bounds on the scores of one block over all rows and heads: few enough that a
// bf16 block takes at most 256 MiB, and enough to be worth a block's calls.
constexpr int64_t kMaxScores = int64_t{1} << 27;
constexpr int64_t kMinScores = int64_t{1} << 24;
constexpr int64_t kMinQueries = 256;
constexpr int64_t kMinQueriesCached = 64, kMaxQueriesCached = 128;
constexpr int64_t kMinLabels = 256;

}  // namespace

int64_t LabelsPerPiece(int64_t vocab_size, bool trained_head, bool cached) {
  const int64_t logits = int64_t{1} << (trained_head && !cached ? 27 : 25);
  return std::max(kMinLabels,
                  logits / std::max<int64_t>(vocab_size, 1) / 64 * 64);
}

int64_t QueriesPerBlock(int64_t rows, int64_t heads, int64_t length,
                        bool cached) {
  int64_t count = length;
  if (cached) {
    count = std::clamp(count / 8, kMinQueriesCached, kMaxQueriesCached);
  }
  const int64_t by_query = rows * heads * length;
  while (count > kMinQueries && count / 2 * by_query >= kMinScores) {
    count = (count + 1) / 2;
  }
  while (count > 32 && count * by_query > kMaxScores) count = (count + 1) / 2;
  return std::min(length, (count + 31) / 32 * 32);
}

}  // namespace mpsd::spec
