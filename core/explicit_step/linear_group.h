// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "core/lora/lora.h"
#include "core/model/attention_plan.h"
#include "core/model/layers.h"
#include "core/optim/parameters.h"
#include "core/spec/train_spec.h"

namespace mpsd::explicit_step {

// All weights of a model, if they are trained themselves.
struct TrainedWeights {
  optim::ParameterSet& parameters;
  // The gradients hold nothing of this step yet: what is added first replaces
  // their numbers, which saves a pass of zeros and one of reading them.
  bool fresh = true;
};

struct Options : attention::Options {
  spec::Recompute recompute = spec::Recompute::kNone;
  // The norms' epsilon as an fp32 scalar on the device, so that it is copied
  // there once. ExplicitStep::Create fills it in; undefined: each norm makes
  // its own.
  at::Tensor eps = {};
  // Null: the model's own weights are frozen. ExplicitStep fills it in.
  const TrainedWeights* weights = nullptr;

  bool fresh() const { return weights != nullptr && weights->fresh; }
};

// One adapter and its position in the part.
struct LoraTarget {
  const lora::LoraLinear* lora;
  int64_t rank_begin, rank;  // columns of tₚ
  int64_t out_begin, out;    // columns of yₚ
};

// The adapters of the linears that write into one output y [tokens, out]:
//   y += t B̃,  t [tokens, R]: the part's columns of the group's x Aᵀ
// B̃ [R, out] has scaling · Bᵀ of each adapter on its diagonal, and zeros
// elsewhere.
struct OutputAdapters {
  std::vector<LoraTarget> targets;
  int64_t rank_begin = 0;     // first column in the group's x Aᵀ
  int64_t rank = 0, out = 0;  // rank 0: no linear of the part has an adapter
  at::Tensor b, b_t, grad_b;  // [R, out], [out, R], fp32 [R, out]
};

// The adapters of the linears that share an input x. A [R, in] stacks the A of
// all of them, so that one GEMM computes x Aᵀ. Values have the dtype of
// activations, gradients are fp32.
struct LoraGroup {
  std::vector<OutputAdapters> parts;
  int64_t rank = 0, in = 0;
  // If x = z · rstd · w is a norm's output: w [in]. The steps may then add to
  // grad_a as if x were z · rstd, and CollectGradients multiplies grad_a by w.
  at::Tensor norm_weight;
  at::Tensor a, a_t, grad_a;  // [R, in], [in, R], fp32 [R, in]
  double dropout = 0;
  bool draws() const;  // whether dropout is currently on
};

using Parts = std::vector<std::vector<const model::Linear*>>;

// A norm's w for LoraGroup::norm_weight; undefined without a norm.
inline at::Tensor WeightOf(const std::optional<model::RmsNorm>& norm) {
  return norm ? norm->Factor() : at::Tensor();
}

// All adapters of a model in flat buffers. Refresh fills the buffers from the
// parameters before a step and CollectGradients copies the gradients back after
// the step: a few fused calls instead of several per target.
class LoraPack {
 public:
  // Makes the group of the linears of `parts`, of which at least one must have
  // an adapter. The group is valid as long as the pack exists. `norm_weight`:
  // see LoraGroup; may be undefined.
  LoraGroup* Add(const std::vector<std::vector<const model::Linear*>>& parts,
                 const at::Tensor& norm_weight);
  int64_t adapters() const { return adapters_; }
  bool draws() const;  // whether any group's dropout is currently on
  // Call after the last Add.
  void Allocate(at::Device device, at::ScalarType dtype);

  // Copies the parameters' values in and sets the gradients to zero.
  void Refresh();
  // Writes the gradients of all micro-batches since Refresh into the
  // parameters' .grad.
  void CollectGradients();

 private:
  // Views of one flat buffer, which has the A of all groups and then the B̃ of
  // all parts.
  struct Matrices {
    std::vector<at::Tensor> a;  // one per group, [R, in]
    std::vector<at::Tensor> b;  // one per part, [R, out]
  };
  // The blocks of such matrices that belong to one target each, in the shape of
  // its parameters.
  struct Blocks {
    std::vector<at::Tensor> a;  // [rank, in]
    std::vector<at::Tensor> b;  // [out, rank]
  };
  Matrices Cut(const at::Tensor& flat) const;
  Blocks ByTarget(const Matrices& matrices) const;
  // Gives each group and part its views of `packed_` and `gradients_`.
  void HandOut(const Matrices& packed, const Matrices& gradients);
  void ListParameters();
  at::Tensor GradientScales() const;

  std::deque<LoraGroup> groups_;
  int64_t adapters_ = 0, a_size_ = 0, b_size_ = 0;
  at::Tensor values_;           // fp32 [a_size + b_size]
  at::Tensor packed_;           // `values_` in the dtype of activations
  at::Tensor gradients_;        // fp32 [a_size + b_size]
  at::Tensor gradient_scales_;  // fp32 [a_size + b_size]: w, scaling
  at::Tensor b_scales_;         // fp32 [b_size], scaling of each adapter
  // One per target, in the same order: read and written by Refresh, written and
  // read by CollectGradients.
  std::vector<at::Tensor> from_a_, from_b_, to_a_, to_b_;
  Blocks value_blocks_, gradient_blocks_;
};

// What a forward keeps for the backward of the group's adapters.
struct LoraTape {
  at::Tensor low_rank;  // t = x Aᵀ, [tokens, R]; undefined: no adapter
  std::vector<at::Tensor> masks;  // of dropout, one per target; or empty
};

// The linears that share one input x, with their adapters. The linears come in
// parts; the linears of a part write adjacent columns of one output. Rows are
// tokens: x and dx [tokens, in], yₚ and dyₚ [tokens, outₚ]. Part p:
//   Wₚ [outₚ, in], bₚ [outₚ]   the weights and biases, stacked
//   A [R, in]                  the A of all adapters of the group, stacked
//   B̃ₚ [Rₚ, outₚ]              scaling · Bᵀ of each adapter on the diagonal
//   tₚ, dtₚ [tokens, Rₚ]       p's columns of t and dt; R = Σ Rₚ
// Forward (the residual, if given, is added to y₀):
//   t  = x Aᵀ
//   yₚ = x Wₚᵀ + bₚ + tₚ B̃ₚ
// Backward (gradients of weights add up in fp32 over micro-batches; those of A
// and B̃ₚ are LoraGroup's, those of Wₚ and bₚ the parameters' own):
//   dtₚ = dyₚ B̃ₚᵀ      dB̃ₚ += tₚᵀ dyₚ
//   dx  = Σ dyₚ Wₚ + dt A      dA += dtᵀ x
//   dWₚ += dyₚᵀ x      dbₚ += Σ dyₚ over the tokens; if they are trained
//
// With dropout adapter i reads dᵢ(x) = x ∘ maskᵢ / (1 − probability): tᵢ =
// dᵢ(x) Aᵢᵀ, dAᵢ += dtᵢᵀ dᵢ(x), and dx += dᵢ(dtᵢ Aᵢ).
//
// If x = z · rstd · w is a norm's output and nothing is dropped, dA is computed
// as ((rstd · dt)ᵀ z) ∘ w, so that x need not be kept or recomputed;
// LoraPack::CollectGradients multiplies by w.
class LinearGroup {
 public:
  // `parts` has the linears of each part; they must outlive this object.
  // `norm_weight` is w if the input is a norm's output z · rstd · w, else
  // undefined. With `widths` one linear computes several outputs of these
  // widths, and is the only one of `parts`: Forward returns, and Backward
  // takes, one tensor for each.
  LinearGroup(const std::vector<std::vector<const model::Linear*>>& parts,
              const at::Tensor& norm_weight, const Options& options,
              LoraPack& pack, std::vector<int64_t> widths = {});

  bool adapted() const { return lora_ != nullptr; }
  // Whether Backward adds to any gradient: of adapters, or of the weights.
  bool trained() const { return adapted() || options_.weights != nullptr; }

  // One output per part, or per width. `residual` [tokens, out], if defined, is
  // added to the first.
  std::vector<at::Tensor> Forward(const at::Tensor& x,
                                  const at::Tensor& residual,
                                  LoraTape& tape) const;
  // Repeats Forward with the t and the masks that the first run left on `tape`,
  // so that dropout draws nothing again.
  std::vector<at::Tensor> ForwardAgain(const at::Tensor& x,
                                       const at::Tensor& residual,
                                       const LoraTape& tape) const;

  // The input x, in the form from which the gradient of A is computed.
  struct Input {
    // Returns x, or the z of x = z · rstd · w. Called only if the group is
    // trained.
    std::function<at::Tensor()> tensor;
    at::Tensor rstd = {};  // fp32 [tokens, 1], if `tensor` returns z
  };
  // The Input for x = norm(z), or x = z without it. `norm` is the one whose
  // weight was passed to the constructor.
  Input OfNorm(const at::Tensor& z, const at::Tensor& rstd,
               const std::optional<model::RmsNorm>& norm) const;
  // Adds to the gradients. Returns dx, or an undefined tensor if `wants_dx` is
  // false.
  at::Tensor Backward(const std::vector<at::Tensor>& dy, const Input& input,
                      const LoraTape& tape, bool wants_dx) const;

  // The next four functions compute only the adapters' terms, for a group of
  // one part whose output is too wide to exist for all tokens at once (the
  // head). The caller walks the output in pieces of rows.
  //
  // t = x Aᵀ of all tokens; recorded on `tape`.
  at::Tensor AdapterLowRank(const at::Tensor& x, LoraTape& tape) const;
  // The adapters' contribution to y for the rows of t in `low_rank`: t B̃.
  at::Tensor AdapterOutput(const at::Tensor& low_rank) const;
  // dt of the rows of `dy`; adds to the gradient of B̃. `low_rank`: their rows
  // of t.
  at::Tensor AdapterBackward(const at::Tensor& dy,
                             const at::Tensor& low_rank) const;
  // Given dt of all tokens: adds to the gradient of A and, if `dx` is defined,
  // to dx.
  void AdapterInputBackward(const at::Tensor& d_low_rank, const Input& input,
                            const LoraTape& tape, at::Tensor& dx) const;

 private:
  // dW needs x itself, and so does dA with dropout, whose masks apply to x, not
  // to z.
  bool wants_normed() const {
    return options_.weights != nullptr || (adapted() && lora_->dropout > 0);
  }
  // One GEMM: the weight of a linear, or of several linears of a part whose
  // weights are adjacent in memory.
  struct Block {
    // Decodes a quantised weight at each use.
    const model::Linear* linear = nullptr;
    at::Tensor weight, weight_t, bias;
    at::Tensor weight_grad, bias_grad;  // fp32; undefined: frozen
    int64_t begin = 0, out = 0;         // position in the part's outputs
  };
  using OutputBlocks = std::vector<Block>;
  // Whether one GEMM computes both: it reads x once. The weights must be
  // adjacent in memory, where DecoderLoader places q and k, and a ParameterSet
  // a decoder's linears.
  bool Joins(const Block& a, const Block& b) const;
  // Fills in what follows from weight and bias.
  void Complete(Block& block) const;
  // The columns of a part's y or dy that belong to `block`.
  static at::Tensor Columns(const at::Tensor& y, const Block& block) {
    return y.size(1) == block.out ? y : y.narrow(1, block.begin, block.out);
  }

  OutputBlocks MakeOutputBlocks(
      const std::vector<const model::Linear*>& linears) const;
  at::Tensor Weight(const Block& block) const;
  at::Tensor Base(const OutputBlocks& part, const at::Tensor& x,
                  const at::Tensor& residual) const;
  std::vector<at::Tensor> Bases(const at::Tensor& x,
                                const at::Tensor& residual) const;
  at::Tensor BaseBackward(const std::vector<at::Tensor>& dy) const;
  void WeightsBackward(const std::vector<at::Tensor>& dy,
                       const at::Tensor& x) const;
  // The columns of t or dt [tokens, R] that belong to `part`.
  at::Tensor LowRankColumns(const at::Tensor& low_rank,
                            const OutputAdapters& part) const;
  void AddAdapters(const at::Tensor& low_rank,
                   std::vector<at::Tensor>& y) const;
  // Returns dt of a part; adds to the gradient of the part's B̃.
  at::Tensor OutputBackward(const OutputAdapters& part, const at::Tensor& dy,
                            const at::Tensor& low_rank) const;
  at::Tensor DroppedLowRank(const at::Tensor& x, LoraTape& tape) const;
  void DroppedBackward(const at::Tensor& d_low_rank, const at::Tensor& x,
                       const LoraTape& tape, at::Tensor& dx) const;

  std::vector<at::Tensor> Divided(std::vector<at::Tensor> y) const;
  at::Tensor PartsBackward(const std::vector<at::Tensor>& dy,
                           const Input& input, const LoraTape& tape,
                           bool wants_dx) const;

  const Options options_;
  const std::vector<int64_t> widths_;
  std::vector<OutputBlocks> parts_;
  LoraGroup* lora_ = nullptr;
};

}  // namespace mpsd::explicit_step
