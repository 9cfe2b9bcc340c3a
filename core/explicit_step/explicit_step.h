// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/explicit_step/attention_block.h"
#include "core/explicit_step/head.h"
#include "core/explicit_step/linear_group.h"
#include "core/explicit_step/mlp_block.h"
#include "core/model/decoder.h"
#include "core/model/losses.h"

namespace mpsd::explicit_step {

// Computes the gradients of a decoder's LoRA adapters or of all its weights.
// Forward and backward are hand-written over saved activations: no autograd
// graph, no gradients of frozen weights, and the tape has only what the
// backward reads. The result equals autograd over the same model up to rounding
// (in bf16 adapters and norms multiply in bf16 here and in fp32 under
// autograd).
//
//   step.Begin();  for each micro-batch: step.Add(…);  step.End();
//
// One layer is AttentionBlock, then MlpBlock, whose headers have the formulas;
// head.h has the loss. Rotations and masks depend only on the rows' shape:
// those of the latest are kept from step to step.
class ExplicitStep {
 public:
  // `parameters` are those of the adapters that `decoder` carries, or all of
  // its weights; FailedPrecondition, with the reason, for anything else.
  // spec::ChooseGradients predicts the answer. Both must outlive the step.
  static absl::StatusOr<std::unique_ptr<ExplicitStep>> Create(
      const model::Decoder& decoder, optim::ParameterSet& parameters,
      const Options& options);

  // What the backward recomputes, from the next Add on. Starts as
  // options.recompute.
  void set_recompute(spec::Recompute recompute) { recompute_ = recompute; }
  // Add calls `commit` after every few layers, so that the device starts the
  // work encoded so far (MPS executes only what was committed). Null: no calls.
  void set_commit(std::function<void()> commit) { commit_ = std::move(commit); }

  // Forgets the gradients; copies the adapters' current values into the step's
  // own buffers.
  void Begin();
  // Adds `scale` times the gradient of the summed loss. Returns the summed
  // loss, an fp32 scalar on the device. `weigh` (head.h), called once between
  // forward and backward, replaces `scale`.
  at::Tensor Add(const model::DecoderInputs& inputs,
                 const model::LabelSelection& labels, double scale,
                 const LossHead::Weigh& weigh = nullptr);
  // Writes the gradients into the parameters' .grad.
  void End();

  // The attention kernels that ran so far.
  const attention::AttentionRan& attention() const { return attention_; }

 private:
  struct Layer {
    AttentionBlock attention;
    MlpBlock mlp;
    int64_t window;
    spec::LayerRope rope;
    bool trained() const { return attention.trained() || mlp.trained(); }
  };
  // What one layer keeps from its forward to its backward.
  struct Tape {
    at::Tensor x, h;  // the layer's input; its sum after attention
    AttentionBlockTape attention;
    MlpTape mlp;
  };
  // What the layers of one micro-batch share.
  struct Context {
    std::map<spec::LayerRope, RopeTable> ropes;
    // If tokens are stored position by position: entry row · length + position
    // is the row of the activations for this token. Undefined: row by row.
    at::Tensor places;
    std::map<int64_t, attention::AttentionPlan> plans;  // by window
  };
  // What a context depends on; the default for packed rows, whose segments are
  // their own.
  struct ContextKey {
    int64_t rows = 0, length = 0;
    bool draws = false;
    bool operator==(const ContextKey&) const = default;
  };

  ExplicitStep(const model::Decoder& decoder, optim::ParameterSet& parameters,
               const Options& options, bool whole);
  bool whole() const { return options_.weights != nullptr; }
  // The context is valid until the next call.
  const Context& ContextOf(const model::DecoderInputs& inputs);
  Context MakeContext(const model::DecoderInputs& inputs);
  void NoteKernels(const Context& context);
  at::Tensor Forward(const Layer& layer, const at::Tensor& x,
                     const Context& context, Tape& tape) const;
  at::Tensor Backward(const Layer& layer, const at::Tensor& dy,
                      const Context& context, Tape& tape, bool wants_dx) const;
  // Calls commit_ when due. `layers` is the number of layers below the point
  // reached, forward or backward.
  void Commit(size_t layers) const;
  // Computes the loss into `sum`; returns the gradient by the last layer's
  // output y.
  at::Tensor Head(const at::Tensor& y, const model::LabelSelection& labels,
                  double scale, const LossHead::Weigh& weigh,
                  const Context& context, at::Tensor& sum);
  // Adds d [tokens, hidden_size] to the embedding's gradient; `ids` [tokens].
  void EmbeddingBackward(const at::Tensor& ids, const at::Tensor& d) const;

  const model::Decoder& decoder_;
  TrainedWeights weights_;  // of a model that is trained whole
  const Options options_;   // with a pointer to them
  const attention::HeadShape shape_;
  LoraPack pack_;
  LossHead head_;
  std::vector<std::unique_ptr<Layer>> layers_;
  size_t lowest_ = 0;   // the lowest trained layer
  bool begun_ = false;  // from Begin to End
  spec::Recompute recompute_;
  std::function<void()> commit_;
  ContextKey context_key_;  // of the latest context
  std::optional<Context> context_;
  attention::AttentionRan attention_;
};

}  // namespace mpsd::explicit_step
