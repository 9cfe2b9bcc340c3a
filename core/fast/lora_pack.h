// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_FAST_LORA_PACK_H_
#define MPSD_CORE_FAST_LORA_PACK_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <vector>

#include "core/lora/lora.h"
#include "core/model/layers.h"

namespace mpsd::fast {

// An adapter among those of its part.
struct LoraTarget {
  const lora::LoraLinear* lora;
  int64_t rank_begin, rank;  // its columns of the part's thin product
  int64_t out_begin, out;    // its columns of the part's output
};

// Adapters whose outputs lie in one tensor y [tokens, out]:
//   y += t B̃,  t [tokens, R] the part's columns of the thin product
// where B̃ [R, out] holds scaling · Bᵀ of each on its diagonal.
struct LoraPart {
  std::vector<LoraTarget> targets;
  int64_t rank_begin = 0;     // in the group's thin product
  int64_t rank = 0, out = 0;  // rank 0: no linear of it is adapted
  at::Tensor b, b_t, grad_b;  // [R, out], [out, R], fp32 [R, out]
};

// The adapters of linears that share their input x: the thin product is x Aᵀ
// with A [R, in] of all of them. In the dtype of activations; gradients in
// fp32.
struct LoraGroup {
  std::vector<LoraPart> parts;
  int64_t rank = 0, in = 0;
  // Of the input x = z · rstd · w: the gradient by A may be given as if x were
  // z · rstd; w [in] then comes on it in CollectGradients.
  at::Tensor norm_weight;
  at::Tensor a, a_t, grad_a;  // [R, in], [in, R], fp32 [R, in]
  double dropout = 0;
  bool draws() const;  // dropout that is on now
};

// All adapters of a model, packed: flat buffers that are filled once a step
// and whose gradients go back to the parameters' once a step.
class LoraPack {
 public:
  // The group of linears by part, of which at least one must have an adapter;
  // valid while the pack lives. `norm_weight`, or undefined: see LoraGroup.
  LoraGroup* Add(const std::vector<std::vector<const model::Linear*>>& parts,
                 const at::Tensor& norm_weight);
  int64_t adapters() const { return adapters_; }
  bool draws() const;  // dropout of any group that is on now
  // After the last Add.
  void Allocate(at::Device device, at::ScalarType dtype);

  // The parameters' values; gradients to zero.
  void Refresh();
  // Writes the gradients of all micro-batches since Refresh into the
  // parameters' .grad.
  void CollectGradients();

 private:
  struct Slices {
    std::vector<at::Tensor> a, b;  // of one flat buffer, by target
  };
  // Views of `flat`, which holds all A, then all B; they are handed to each
  // group and part.
  Slices Slice(const at::Tensor& flat,
               void (*set_a)(LoraGroup&, const at::Tensor& a),
               void (*set_b)(LoraPart&, const at::Tensor& b));
  void CollectViews();
  at::Tensor GradientScales() const;

  std::deque<LoraGroup> groups_;
  int64_t adapters_ = 0, a_size_ = 0, b_size_ = 0;
  at::Tensor values_;           // fp32 [a_size + b_size]
  at::Tensor packed_;           // the same in the dtype of activations
  at::Tensor gradients_;        // fp32 [a_size + b_size]
  at::Tensor gradient_scales_;  // fp32, of the same size
  at::Tensor b_scales_;         // fp32 [b_size], scaling of each adapter
  std::vector<at::Tensor> from_a_, from_b_, to_a_, to_b_;  // by target
  Slices value_slices_, gradient_slices_;
};

}  // namespace mpsd::fast

#endif  // MPSD_CORE_FAST_LORA_PACK_H_
