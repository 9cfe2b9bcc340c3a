// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_EXPLICIT_STEP_LORA_PACK_H_
#define MPSD_CORE_EXPLICIT_STEP_LORA_PACK_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <vector>

#include "core/lora/lora.h"
#include "core/model/layers.h"

namespace mpsd::explicit_step {

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

}  // namespace mpsd::explicit_step

#endif  // MPSD_CORE_EXPLICIT_STEP_LORA_PACK_H_
