// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_EXPLICIT_STEP_LINEAR_GROUP_H_
#define MPSD_CORE_EXPLICIT_STEP_LINEAR_GROUP_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "core/explicit_step/lora_pack.h"
#include "core/explicit_step/options.h"
#include "core/model/layers.h"

namespace mpsd::explicit_step {

// What a forward keeps for the backward of the group's adapters.
struct LoraTape {
  at::Tensor low_rank;  // t = x Aᵀ, [tokens, R]; undefined: no adapter
  std::vector<at::Tensor> masks;  // of dropout, one per target; or empty
};

// The frozen linears that share one input x, with their adapters. The linears
// come in parts; the linears of a part write adjacent columns of one output.
// Rows are tokens: x and dx [tokens, in], yₚ and dyₚ [tokens, outₚ]. Part p:
//   Wₚ [outₚ, in], bₚ [outₚ]   the frozen weights and biases, stacked
//   A [R, in]                  the A of all adapters of the group, stacked
//   B̃ₚ [Rₚ, outₚ]              scaling · Bᵀ of each adapter on the diagonal
//   tₚ, dtₚ [tokens, Rₚ]       p's columns of t and dt; R = Σ Rₚ
// Forward (the residual, if given, is added to y₀):
//   t  = x Aᵀ
//   yₚ = x Wₚᵀ + bₚ + tₚ B̃ₚ
// Backward (dA and dB̃ₚ add up in fp32 over micro-batches, LoraGroup):
//   dtₚ = dyₚ B̃ₚᵀ      dB̃ₚ += tₚᵀ dyₚ
//   dx  = Σ dyₚ Wₚ + dt A      dA += dtᵀ x
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
  // undefined.
  LinearGroup(const std::vector<std::vector<const model::Linear*>>& parts,
              const at::Tensor& norm_weight, const Options& options,
              LoraPack& pack);

  bool adapted() const { return lora_ != nullptr; }

  // One output per part. `residual` [tokens, out], if defined, is added to the
  // first.
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
    // adapted.
    std::function<at::Tensor()> tensor;
    at::Tensor rstd = {};  // fp32 [tokens, 1], if `tensor` returns z
  };
  // The Input for x = norm(z). `norm` is the one whose weight was passed to the
  // constructor.
  Input OfNorm(const at::Tensor& z, const at::Tensor& rstd,
               const model::RmsNorm& norm) const;
  // Adds to the adapters' gradients. Returns dx, or an undefined tensor if
  // `wants_dx` is false.
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
  // With dropout dA needs the dropped x itself: the masks apply to x, not to z.
  bool wants_normed() const { return adapted() && lora_->dropout > 0; }
  // One frozen GEMM: the weight of a linear, or of several linears of a part
  // whose weights are adjacent in memory.
  struct Block {
    // Decodes a quantised weight at each use.
    const model::Linear* linear = nullptr;
    at::Tensor weight, weight_t, bias;
    int64_t begin = 0, out = 0;  // position in the part's outputs
  };
  using OutputBlocks = std::vector<Block>;

  OutputBlocks MakeOutputBlocks(
      const std::vector<const model::Linear*>& linears) const;
  at::Tensor Weight(const Block& block) const;
  at::Tensor Base(const OutputBlocks& part, const at::Tensor& x,
                  const at::Tensor& residual) const;
  std::vector<at::Tensor> Bases(const at::Tensor& x,
                                const at::Tensor& residual) const;
  at::Tensor BaseBackward(const std::vector<at::Tensor>& dy) const;
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
  // gradient += low_rankᵀ wide, summed in fp32. Shapes: gradient [r, n],
  // low_rank [tokens, r], wide [tokens, n].
  void AddProduct(at::Tensor gradient, const at::Tensor& low_rank,
                  const at::Tensor& wide) const;

  const Options options_;
  std::vector<OutputBlocks> parts_;
  LoraGroup* lora_ = nullptr;
};

}  // namespace mpsd::explicit_step

#endif  // MPSD_CORE_EXPLICIT_STEP_LINEAR_GROUP_H_
