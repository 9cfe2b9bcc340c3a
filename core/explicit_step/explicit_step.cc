// SPDX-License-Identifier: Apache-2.0
#include "core/explicit_step/explicit_step.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <optional>

#include "absl/memory/memory.h"
#include "core/base/check.h"
#include "core/base/clock.h"
#include "core/device/block_mark.h"
#include "core/explicit_step/norm.h"

namespace mpsd::explicit_step {
namespace {

attention::HeadShape ShapeOf(const spec::ModelConfig& config) {
  return {config.num_attention_heads, config.num_key_value_heads,
          config.head_dim, config.attention_scale, config.attention_softcap};
}

Options With(Options options, const TrainedWeights* weights) {
  options.weights = weights;
  return options;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ExplicitStep>> ExplicitStep::Create(
    const model::Decoder& decoder, optim::ParameterSet& parameters,
    const Options& options) {
  Options complete = options;
  complete.eps = at::full({}, decoder.config().rms_norm_eps,
                          at::device(decoder.norm().weight.device()));
  const bool whole =
      parameters.GradientOf(decoder.embedding().weight).defined() &&
      parameters.element_count() == spec::ParameterCount(decoder.config());
  auto step =
      absl::WrapUnique(new ExplicitStep(decoder, parameters, complete, whole));
  if (whole) return step;
  const size_t count = 2 * static_cast<size_t>(step->pack_.adapters());
  if (count == 0 || count != parameters.parameters().size()) {
    return absl::FailedPreconditionError(
        "some of the model's own weights are trained");
  }
  step->pack_.Allocate(decoder.norm().weight.device(), options.dtype);
  return step;
}

ExplicitStep::ExplicitStep(const model::Decoder& decoder,
                           optim::ParameterSet& parameters,
                           const Options& options, bool whole)
    : decoder_(decoder),
      weights_({parameters}),
      options_(With(options, whole ? &weights_ : nullptr)),
      shape_(ShapeOf(decoder.config())),
      head_(decoder.head(), options_, pack_),
      recompute_(options.recompute) {
  for (const model::DecoderLayer& layer : decoder.layers()) {
    layers_.push_back(std::unique_ptr<Layer>(new Layer{
        AttentionBlock(layer, shape_, options_, decoder.config(), pack_),
        MlpBlock(layer, options_, decoder.config(), pack_), layer.window,
        layer.rope}));
  }
  while (lowest_ < layers_.size() && !layers_[lowest_]->trained()) ++lowest_;
}

void ExplicitStep::Begin() {
  const profile::BlockMark mark("mpsd::adapters");
  const at::AutoDispatchBelowADInplaceOrView no_graph;
  weights_.fresh = true;
  if (!whole()) pack_.Refresh();
  begun_ = true;
}

void ExplicitStep::End() {
  const profile::BlockMark mark("mpsd::adapters backward");
  const at::AutoDispatchBelowADInplaceOrView no_graph;
  base::Check(std::exchange(begun_, false), "Begin comes before End");
  if (!whole()) return pack_.CollectGradients();
  if (weights_.fresh) weights_.parameters.ZeroGradients();
}

const ExplicitStep::Context& ExplicitStep::ContextOf(
    const model::DecoderInputs& inputs) {
  const ContextKey key =
      inputs.segment_ids.defined()
          ? ContextKey()
          : ContextKey{inputs.input_ids.size(0), inputs.input_ids.size(1),
                       pack_.draws()};
  if (key == ContextKey() || key != context_key_ || !context_) {
    context_.reset();  // before the next one is made: not both in memory
    context_ = MakeContext(inputs);
    context_key_ = key;
  }
  return *context_;
}

ExplicitStep::Context ExplicitStep::MakeContext(
    const model::DecoderInputs& inputs) {
  // Rows that are not packed count from 0: padding is at the right, where no
  // real token sees it, so its positions do not matter. All rows then share one
  // table of rotations.
  const at::Tensor& ids = inputs.input_ids;
  const at::Tensor positions =
      inputs.segment_ids.defined()
          ? inputs.position_ids
          : at::arange(ids.size(1), ids.options()).unsqueeze(0);
  Context context;
  bool by_matrices = false;
  for (const auto& layer : layers_) {
    if (context.ropes.contains(layer->rope)) continue;
    RopeTable& table = context.ropes[layer->rope];
    table =
        MakeRopeTable(decoder_.Table(layer->rope, positions, inputs.longest()),
                      shape_.heads + shape_.kv_heads, options_, shape_.dim);
    by_matrices = by_matrices || table.rotation.defined();
  }
  // If the table has rotation matrices, rope is one product per position: q and
  // k of all rows at this position times one matrix. If the activations are
  // stored position by position, these operands are views; row by row, each
  // layer would copy q and k there and back. With dropout the rows stay in
  // order, since PEFT draws its masks in that order.
  const bool by_position = by_matrices && ids.size(0) > 1 && !pack_.draws();
  if (by_position) {
    // Labels identify a token by its row-by-row index; `places` maps this to
    // its position-by-position index: places[row · length + position] =
    // position · rows + row. The view [length, rows] has position · rows + row
    // at [position, row]; its transpose, read row by row, is the map.
    context.places = at::arange(ids.numel(), ids.options())
                         .view({ids.size(1), ids.size(0)})
                         .t()
                         .flatten();
  }
  for (const auto& layer : layers_) {
    if (context.plans.contains(layer->window)) continue;
    context.plans[layer->window] = attention::PlanAttention(
        inputs.layout(), layer->window, by_position, shape_, options_);
  }
  return context;
}

void ExplicitStep::NoteKernels(const Context& context) {
  for (size_t i = 0; i < layers_.size(); ++i) {
    const attention::AttentionPlan& plan = context.plans.at(layers_[i]->window);
    attention_.forward.insert(attention::NameOf(plan.forward));
    if (i > lowest_ || (i == lowest_ && layers_[i]->attention.trained())) {
      attention_.backward.insert(attention::NameOf(plan.backward));
    }
  }
}

at::Tensor ExplicitStep::Forward(const Layer& layer, const at::Tensor& x,
                                 const Context& context, Tape& tape) const {
  // The tape keeps what the backward reads; with recomputation only the layer's
  // input, or that and its sum after attention, plus the adapters' small part.
  tape.x = x;
  tape.h =
      layer.attention.Forward(x, context.plans.at(layer.window),
                              context.ropes.at(layer.rope), tape.attention);
  const at::Tensor y = layer.mlp.Forward(tape.h, tape.mlp);
  if (recompute_ != spec::Recompute::kNone) tape.mlp.KeepAdaptersOnly();
  if (recompute_ == spec::Recompute::kFull) {
    tape.h.reset();
    tape.attention.KeepAdaptersOnly();
  }
  return y;
}

at::Tensor ExplicitStep::Backward(const Layer& layer, const at::Tensor& dy,
                                  const Context& context, Tape& tape,
                                  bool wants_dx) const {
  const attention::AttentionPlan& plan = context.plans.at(layer.window);
  const RopeTable& rope = context.ropes.at(layer.rope);
  base::Check(tape.x.defined(), "a layer goes back after it went forward");
  // What was not kept is recomputed in the order of the forward: the MLP reads
  // h.
  if (!tape.h.defined()) {
    tape.h = layer.attention.ForwardAgain(tape.x, plan, rope, tape.attention);
  }
  if (!tape.mlp.gate.defined()) layer.mlp.ForwardAgain(tape.h, tape.mlp);
  const bool below = wants_dx || layer.attention.trained();
  const at::Tensor dh = layer.mlp.Backward(dy, tape.h, tape.mlp, below);
  if (!below) return {};
  // The MLP's activations are freed before attention's backward makes its own.
  tape.mlp = {};
  return layer.attention.Backward(dh, tape.x, plan, rope, tape.attention,
                                  wants_dx);
}

void ExplicitStep::Commit(size_t layers) const {
  if (commit_ && layers > 0 && layers % model::kLayersPerCommit == 0) commit_();
}

at::Tensor ExplicitStep::Head(const at::Tensor& y,
                              const model::LabelSelection& labels, double scale,
                              const LossHead::Weigh& weigh,
                              const Context& context, at::Tensor& sum) {
  const profile::BlockMark mark("mpsd::head");
  const at::Tensor rows = context.places.defined()
                              ? context.places.index_select(0, labels.rows)
                              : labels.rows;
  const at::Tensor picked = y.index_select(0, rows);
  const Normed n = NormForward(picked, decoder_.norm(), options_);
  const double s = decoder_.head_scale();
  const LossHead::Result loss =
      head_.Loss(s == 1 ? n.y : n.y * s, labels.targets, scale, weigh);
  sum = loss.sum;
  const at::Tensor d = NormBackward(s == 1 ? loss.grad : loss.grad * s, picked,
                                    n.rstd, decoder_.norm(), {}, options_);
  return at::zeros_like(y).index_add_(0, rows, d);
}

void ExplicitStep::EmbeddingBackward(const at::Tensor& ids,
                                     const at::Tensor& d) const {
  const profile::BlockMark mark("mpsd::embedding backward");
  const model::Embedding& embedding = decoder_.embedding();
  at::Tensor rows = d.to(at::kFloat);
  const double scale = decoder_.embedding_scale();
  if (scale != 1) rows = rows * scale;
  if (embedding.padding_row >= 0) {
    rows = rows.masked_fill((ids == embedding.padding_row).unsqueeze(1), 0);
  }
  const at::Tensor& gradient = embedding.weight.grad();
  // A tied head's is already there.
  if (options_.fresh() && !decoder_.head().weight.is_same(embedding.weight)) {
    gradient.zero_();
  }
  gradient.index_add_(0, ids, rows);
}

at::Tensor ExplicitStep::Add(const model::DecoderInputs& inputs,
                             const model::LabelSelection& labels, double scale,
                             const LossHead::Weigh& weigh) {
  const at::AutoDispatchBelowADInplaceOrView no_graph;
  base::Check(begun_, "Begin comes before Add");
  std::optional<profile::BlockMark> embedding("mpsd::embedding");
  const Context& context = ContextOf(inputs);
  NoteKernels(context);
  const at::Tensor ids = context.places.defined()
                             ? inputs.input_ids.t().contiguous()
                             : inputs.input_ids;
  at::Tensor x = decoder_.Embed(ids).flatten(0, 1);
  embedding.reset();
  std::vector<Tape> tapes(layers_.size());
  for (size_t i = 0; i < layers_.size(); ++i) {
    const profile::BlockMark mark(static_cast<int64_t>(i), "");
    base::CountWork();
    // Below the lowest trained layer no gradient is needed: nothing is kept.
    if (i < lowest_) {
      Tape unused;
      x = Forward(*layers_[i], x, context, unused);
    } else {
      x = Forward(*layers_[i], x, context, tapes[i]);
    }
    Commit(i + 1);
  }
  at::Tensor sum;
  at::Tensor d = Head(x, labels, scale, weigh, context, sum);
  x.reset();
  for (size_t i = layers_.size(); i-- > lowest_;) {
    const profile::BlockMark mark(static_cast<int64_t>(i), " backward");
    base::CountWork();
    d = Backward(*layers_[i], d, context, tapes[i], whole() || i > lowest_);
    tapes[i] = {};
    Commit(i);
  }
  if (whole()) EmbeddingBackward(ids.flatten(), d);
  weights_.fresh = false;
  return sum;
}

}  // namespace mpsd::explicit_step
