// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_FAST_LINEAR_GROUP_H_
#define MPSD_CORE_FAST_LINEAR_GROUP_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "core/fast/lora_pack.h"
#include "core/fast/options.h"
#include "core/model/layers.h"

namespace mpsd::fast {

// What the adapters of a group keep of a forward.
struct LoraTape {
  at::Tensor thin;                // x Aᵀ, [tokens, R]; undefined: no adapter
  std::vector<at::Tensor> masks;  // of dropout, by target; empty: none
};

// The linears of one input, frozen, with their adapters, in parts of which each
// gives one output:
//   yₚ = x Wₚᵀ + bₚ + (x Aᵀ)ₚ B̃ₚ
//   dx = Σ dyₚ Wₚ + dt A,  dt = [dyₚ B̃ₚᵀ]ₚ,  dA = dtᵀ x,  dB̃ₚ = (x Aᵀ)ₚᵀ dyₚ
// With dropout each adapter's x has a mask of its own.
// Tokens are rows: x [tokens, in], yₚ [tokens, outₚ]. Weights of a part that
// lie one behind the other in memory are one GEMM.
class LinearGroup {
 public:
  // The linears by part must outlive it. `norm_weight` where x is z · rstd ·
  // weight.
  LinearGroup(const std::vector<std::vector<const model::Linear*>>& parts,
              const at::Tensor& norm_weight, const Options& options,
              LoraPack& pack);

  bool adapted() const { return lora_ != nullptr; }

  // The outputs; of the first `residual` [tokens, out] is a summand where it is
  // defined.
  std::vector<at::Tensor> Forward(const at::Tensor& x,
                                  const at::Tensor& residual,
                                  LoraTape& tape) const;
  // The same again, by what the tape holds of the first time.
  std::vector<at::Tensor> Again(const at::Tensor& x, const at::Tensor& residual,
                                const LoraTape& tape) const;

  // The input as the gradient of A wants it.
  struct Input {
    // Called only where the group is adapted: x, or the z of x = z · rstd ·
    // weight.
    std::function<at::Tensor()> tensor;
    at::Tensor rstd;  // fp32 [tokens, 1], of that z; undefined: tensor is x
  };
  // The input x = norm(z), of the norm whose weight the constructor got.
  Input OfNorm(const at::Tensor& z, const at::Tensor& rstd,
               const model::RmsNorm& norm) const;
  // Adds the gradients of the adapters; returns dx, undefined unless wanted.
  at::Tensor Backward(const std::vector<at::Tensor>& dy, const Input& input,
                      const LoraTape& tape, bool wants_dx) const;

  // The adapters alone, of a group of one part whose outputs are too wide to
  // exist at once: x Aᵀ of all tokens, kept on the tape; of some of its rows
  // what they add to y, and dt of their dy, B's gradient being added; of all dt
  // the gradient of A, and into dx (unless undefined) theirs of x.
  at::Tensor AdapterThin(const at::Tensor& x, LoraTape& tape) const;
  at::Tensor AdapterOutput(const at::Tensor& thin) const;
  at::Tensor AdapterBackward(const at::Tensor& dy,
                             const at::Tensor& thin) const;
  void AdapterInputBackward(const at::Tensor& d_thin, const Input& input,
                            const LoraTape& tape, at::Tensor& dx) const;

 private:
  // Whether the backward must get x itself, not the z and rstd of a norm.
  bool wants_normed() const { return adapted() && lora_->dropout > 0; }
  // Rows of one weight; a view of several linears' where they are adjacent.
  struct Block {
    const model::Linear* linear;  // whose weight is made as it is used
    at::Tensor weight, weight_t, bias;
    int64_t begin, out;  // rows of the part
  };
  using Part = std::vector<Block>;

  Part MakePart(const std::vector<const model::Linear*>& linears) const;
  at::Tensor Weight(const Block& block) const;
  at::Tensor Base(const Part& part, const at::Tensor& x,
                  const at::Tensor& residual) const;
  std::vector<at::Tensor> Bases(const at::Tensor& x,
                                const at::Tensor& residual) const;
  at::Tensor BaseBackward(const std::vector<at::Tensor>& dy) const;
  // [tokens, R] → the columns of a part.
  at::Tensor Thin(const at::Tensor& thin, const LoraPart& part) const;
  void AddAdapters(const at::Tensor& thin, std::vector<at::Tensor>& y) const;
  // dt of a part; adds the gradient of its B.
  at::Tensor PartBackward(const LoraPart& part, const at::Tensor& dy,
                          const at::Tensor& thin) const;
  at::Tensor DroppedThin(const at::Tensor& x, LoraTape& tape) const;
  void DroppedBackward(const at::Tensor& d_thin, const at::Tensor& x,
                       const LoraTape& tape, at::Tensor& dx) const;
  // G += tᵀ m for a thin t.
  void AddProduct(at::Tensor gradient, const at::Tensor& thin,
                  const at::Tensor& wide) const;

  const Options options_;
  std::vector<Part> parts_;
  LoraGroup* lora_ = nullptr;
};

}  // namespace mpsd::fast

#endif  // MPSD_CORE_FAST_LINEAR_GROUP_H_
