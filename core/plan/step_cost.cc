// SPDX-License-Identifier: Apache-2.0
#include "core/plan/step_cost.h"

#include <algorithm>
#include <array>

#include "core/spec/job_layers.h"
#include "core/spec/memory_estimate.h"

namespace mpsd::plan {
namespace {

constexpr double kFloat = 4;  // bytes
// Passes of AdamW and the clipping over the fp32 numbers of each parameter:
// values, gradients and both moments are read, three of them written; the norm
// and its scale read and write gradients, which are then zeroed.
constexpr double kOptimizerPasses = 11;
// Queries and keys per tile of autograd's attention
// (core/model/attention.h).
constexpr double kTile = 256;

double LoraDropout(const spec::TrainSpec& spec) {
  return spec.fine_tune_type == spec::FineTuneType::kLora
             ? spec.lora.lora_dropout.value_or(0)
             : 0;
}

}  // namespace

StepCost& StepCost::operator+=(const StepCost& other) {
  products += other.products;
  attention += other.attention;
  product_bytes += other.product_bytes;
  other_bytes += other.other_bytes;
  calls += other.calls;
  return *this;
}

StepCost StepCost::operator*(double count) const {
  return {products * count, attention * count, product_bytes * count,
          other_bytes * count, calls * count};
}

StepCosts::StepCosts(const spec::TrainSpec& spec,
                     const spec::ModelConfig& model,
                     const backend::Traits& traits)
    : model_(model),
      traits_(traits),
      number_(spec.training.bf16 ? 2 : kFloat),
      explicit_step_(spec::ChooseGradients(spec, model).explicit_step),
      language_(spec.task == spec::Task::kCausalLm),
      recompute_(spec.training.recompute()),
      dropout_(LoraDropout(spec)),
      trained_parameters_(
          static_cast<double>(spec::TrainableParameterCount(spec, model))),
      full_(spec.fine_tune_type == spec::FineTuneType::kFull),
      job_(spec::LayersOf(spec, model)) {}

double StepCosts::ModelLength(const BatchShape& shape) const {
  return model_.family == spec::Family::kVision
             ? static_cast<double>(model_.vision.patches() + 1)
             : static_cast<double>(shape.length);
}

double StepCosts::ModelTokens(const BatchShape& shape) const {
  return static_cast<double>(shape.rows) * ModelLength(shape);
}

StepCost StepCosts::Product(double m, double k, double n) const {
  return {.products = 2 * m * k * n,
          .product_bytes = (m * k + k * n + m * n) * number_,
          .calls = 1};
}

// The products of a group's adapters: `in_passes` with the A of all of them,
// `out_passes` with each output's B.
StepCost StepCosts::Adapters(const std::vector<spec::JobLinear>& group,
                             double tokens, double in_passes,
                             double out_passes) const {
  StepCost cost;
  if (!explicit_step_ || dropout_ > 0) {
    for (const spec::JobLinear& l : group) {
      if (l.rank == 0) continue;
      cost += Product(tokens, l.in, l.rank) * in_passes;
      if (!explicit_step_) {
        cost += Product(tokens, l.rank, l.out) * out_passes;
      }
    }
    if (!explicit_step_) return cost;
  }
  double in = 0, all = 0;
  // Per output of the explicit step: q with k, and each other linear.
  std::array<double, 2> ranks{}, outs{};
  const bool qkv =
      std::any_of(group.begin(), group.end(),
                  [](const spec::JobLinear& l) { return l.value; });
  for (size_t i = 0; i < group.size(); ++i) {
    const spec::JobLinear& l = group[i];
    const size_t part = qkv ? (l.value ? 1 : 0) : i;
    in = l.in;
    all += l.rank;
    ranks[part] += l.rank;
    outs[part] += l.out;
  }
  if (dropout_ == 0 && all > 0) cost += Product(tokens, in, all) * in_passes;
  for (size_t part = 0; part < ranks.size(); ++part) {
    if (ranks[part] == 0) continue;
    cost += Product(tokens, ranks[part], outs[part]) * out_passes;
  }
  return cost;
}

StepCost StepCosts::GroupForward(const std::vector<spec::JobLinear>& group,
                                 double tokens, bool adapters) const {
  StepCost cost;
  for (const spec::JobLinear& l : group) cost += Product(tokens, l.in, l.out);
  if (adapters) cost += Adapters(group, tokens, 1, 1);
  return cost;
}

StepCost StepCosts::GroupBackward(const std::vector<spec::JobLinear>& group,
                                  double tokens, bool wants_input) const {
  StepCost cost;
  for (const spec::JobLinear& l : group) {
    if (wants_input) cost += Product(tokens, l.out, l.in);
    if (l.trained) cost += Product(l.out, tokens, l.in);
  }
  // Gradients of A and, if needed, of its input; of B and of the low-rank
  // product.
  cost += Adapters(group, tokens, wants_input ? 2 : 1, 2);
  return cost;
}

// The scores of all heads. Blocked attention omits what causality masks, except
// for the rest of a block. `first_only`: each row has a single query, unless
// dropout draws a mask for all of them.
double StepCosts::Scores(const BatchShape& shape, bool first_only) const {
  const double n = ModelLength(shape);
  const double heads = static_cast<double>(shape.rows) *
                       static_cast<double>(model_.num_attention_heads);
  if (model_.family != spec::Family::kDecoder) {
    const bool single =
        first_only && model_.encoder.attention_probs_dropout_prob == 0;
    return heads * n * (single ? 1 : n);
  }
  const double block = explicit_step_
                           ? static_cast<double>(spec::QueriesPerBlock(
                                 shape.rows, model_.num_attention_heads,
                                 shape.length, traits_.cached_pieces))
                           : kTile;
  return heads * n * (n + std::min(block, n)) / 2;
}

StepCost StepCosts::AttentionForward(const BatchShape& shape,
                                     bool first_only) const {
  const double scores = Scores(shape, first_only);
  StepCost cost;
  cost.attention = 4 * static_cast<double>(model_.head_dim) * scores;
  // Made, masked and normalised: written three times, read three times.
  const bool fused = spec::AttendsFused(traits_, model_);
  if (!fused) cost.other_bytes = 6 * scores * number_;
  cost.calls = fused ? 2 : 16;
  return cost;
}

StepCost StepCosts::AttentionBackward(const BatchShape& shape,
                                      bool first_only) const {
  const double scores = Scores(shape, first_only);
  const bool kept = model_.family != spec::Family::kDecoder &&
                    model_.encoder.attention_probs_dropout_prob > 0;
  StepCost cost;
  cost.attention =
      (kept ? 8 : 10) * static_cast<double>(model_.head_dim) * scores;
  const bool fused = spec::AttendsFused(traits_, model_);
  if (!fused) cost.other_bytes = 14 * scores * number_;
  cost.calls = fused ? 3 : 30;
  return cost;
}

StepCost StepCosts::Rotation(double tokens) const {
  StepCost cost;
  if (model_.family != spec::Family::kDecoder) return cost;
  const double d = static_cast<double>(model_.head_dim);
  const double values =
      tokens * static_cast<double>(model_.q_size() + model_.kv_size());
  if (explicit_step_ && traits_.cheap_products) {
    cost.products = 2 * values * d;
    cost.product_bytes = 2 * values * number_;
  } else {
    cost.other_bytes = 6 * values * number_;
  }
  cost.calls = 2;
  return cost;
}

// Autograd composes norms and activations from plain calls, in bf16 with copies
// in fp32.
double StepCosts::Composed() const {
  if (explicit_step_) return 1;
  return number_ < kFloat ? 2.5 : 1.6;
}

bool StepCosts::FirstOnly(size_t layer) const {
  return model_.family != spec::Family::kDecoder &&
         layer + 1 == job_.layers.size();
}

StepCost StepCosts::LayerForward(const spec::JobLayer& layer,
                                 const BatchShape& shape,
                                 bool first_only) const {
  const double tokens = ModelTokens(shape);
  const double tokens_of_end =
      first_only ? static_cast<double>(shape.rows) : tokens;
  StepCost cost = GroupForward(layer.groups[spec::kQkv], tokens, true);
  cost += Rotation(tokens);
  cost += AttentionForward(shape, first_only);
  for (const spec::LinearGroup group : {spec::kOut, spec::kUp, spec::kDown}) {
    cost += GroupForward(layer.groups[group], tokens_of_end, true);
  }
  const double h = static_cast<double>(model_.hidden_size);
  const double i = static_cast<double>(model_.intermediate_size);
  const double norms = static_cast<double>(model_.output_norms());
  cost.other_bytes +=
      tokens_of_end * ((16 + 4 * norms) * h + 8 * i) * number_ * Composed();
  cost.calls += 12 + 2 * norms;
  return cost;
}

StepCost StepCosts::LayerAgain(const spec::JobLayer& layer,
                               const BatchShape& shape, bool first_only) const {
  const double tokens = ModelTokens(shape);
  StepCost cost;
  if (recompute_ == spec::Recompute::kNone) return cost;
  if (!explicit_step_) return LayerForward(layer, shape, first_only);
  const double h = static_cast<double>(model_.hidden_size);
  const bool full = recompute_ == spec::Recompute::kFull;
  for (const spec::LinearGroup group : {spec::kQkv, spec::kOut, spec::kUp}) {
    if (group != spec::kUp && !full) continue;
    cost += GroupForward(layer.groups[group], tokens, false);
    cost += Adapters(layer.groups[group], tokens, 0, 1);
    cost.other_bytes += 4 * tokens * h * number_;
  }
  if (!model_.norms.mlp_output.empty()) {
    const auto& down = layer.groups[spec::kDown];
    cost += GroupForward(down, tokens, false);
    cost += Adapters(down, tokens, 0, 1);
  }
  if (full) {
    cost += Rotation(tokens);
    cost += AttentionForward(shape, first_only);
  }
  return cost;
}

StepCost StepCosts::LayerBackward(const spec::JobLayer& layer,
                                  const BatchShape& shape,
                                  bool first_only) const {
  const double tokens = ModelTokens(shape);
  const double tokens_of_end =
      first_only ? static_cast<double>(shape.rows) : tokens;
  StepCost cost;
  bool below = false;  // whether the group or anything below it is trained
  for (const spec::LinearGroup group :
       {spec::kDown, spec::kUp, spec::kOut, spec::kQkv}) {
    below = layer.wants_input[group];
    for (const spec::JobLinear& l : layer.groups[group]) {
      below = below || l.rank > 0 || l.trained;
    }
    if (!below) return cost;
    if (group == spec::kQkv) {
      cost += AttentionBackward(shape, first_only);
      cost += Rotation(tokens);
    }
    cost += GroupBackward(layer.groups[group],
                          group == spec::kQkv ? tokens : tokens_of_end,
                          layer.wants_input[group]);
  }
  const double h = static_cast<double>(model_.hidden_size);
  const double i = static_cast<double>(model_.intermediate_size);
  const double norms = static_cast<double>(model_.output_norms());
  cost.other_bytes +=
      tokens_of_end * ((22 + 6 * norms) * h + 17 * i) * number_ * Composed();
  cost.calls += 20 + 4 * norms;
  return cost;
}

StepCost StepCosts::Head(double labels, double rows, bool training) const {
  const double h = static_cast<double>(model_.hidden_size);
  if (!language_) {
    const double outputs = static_cast<double>(model_.num_labels);
    return Product(rows, h, outputs) * (training ? 3 : 1);
  }
  const double vocab = static_cast<double>(model_.vocab_size);
  const double passes = !training ? 1 : job_.trained_head ? 3 : 2;
  StepCost cost = Product(labels, h, vocab) * passes;
  if (job_.head_rank > 0) {
    const double adapter = training ? 3 : 1;
    cost += Product(labels, h, job_.head_rank) * adapter;
    cost += Product(labels, job_.head_rank, vocab) * adapter;
  }
  // Logits in fp32: the softmax and its derivative.
  cost.other_bytes += (training ? 12 : 4) * labels * vocab * kFloat;
  cost.calls += 20;
  return cost;
}

StepCost StepCosts::Embed(double tokens) const {
  StepCost cost;
  cost.other_bytes =
      2 * tokens * static_cast<double>(model_.hidden_size) * number_;
  cost.calls = 4;
  if (model_.family == spec::Family::kVision) {
    const double side = static_cast<double>(model_.vision.patch_size);
    const double values =
        static_cast<double>(model_.vision.num_channels) * side * side;
    cost += Product(tokens, values, static_cast<double>(model_.hidden_size));
  }
  return cost;
}

StepCost StepCosts::Train(const BatchShape& shape, double label_share) const {
  const double tokens = ModelTokens(shape);
  const double rows = static_cast<double>(shape.rows);
  StepCost cost = Embed(tokens);
  for (size_t i = 0; i < job_.layers.size(); ++i) {
    const bool first_only = FirstOnly(i);
    cost += LayerForward(job_.layers[i], shape, first_only);
    if (!job_.layers[i].any_backward) continue;
    cost += LayerAgain(job_.layers[i], shape, first_only);
    cost += LayerBackward(job_.layers[i], shape, first_only);
  }
  if (full_ && model_.family == spec::Family::kVision) cost += Embed(tokens);
  cost += Head(tokens * label_share, rows, true);
  return cost;
}

StepCost StepCosts::Evaluate(const BatchShape& shape,
                             double label_share) const {
  const double tokens = ModelTokens(shape);
  const double rows = static_cast<double>(shape.rows);
  StepCost cost = Embed(tokens);
  for (size_t i = 0; i < job_.layers.size(); ++i) {
    cost += LayerForward(job_.layers[i], shape, FirstOnly(i));
  }
  cost += Head(tokens * label_share, rows, false);
  return cost;
}

StepCost StepCosts::Optimizer() const {
  return {.other_bytes = kOptimizerPasses * kFloat * trained_parameters_,
          .calls = 30};
}

}  // namespace mpsd::plan
