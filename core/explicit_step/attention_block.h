// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "core/explicit_step/linear_group.h"
#include "core/explicit_step/norm.h"
#include "core/model/attention_plan.h"
#include "core/model/decoder.h"
#include "core/model/layers.h"
#include "core/model/planned_attention.h"

namespace mpsd::explicit_step {

// Rotary position embedding by halves. x, y, dx and dy [rows, length, heads,
// head_dim]; lo and hi are the two halves of a head's last dimension.
// Forward:
//   y  = (lo · cos − hi · sin, hi · cos + lo · sin) = x R
// Backward, with dy = (dlo, dhi):
//   dx = (dlo · cos + dhi · sin, dhi · cos − dlo · sin) = dy Rᵀ
// R [head_dim, head_dim] is the rotation of one position.
struct RopeTable {
  at::Tensor cos;  // [rows, length, 1, rotary_size]
  at::Tensor sin;  // [rows, length, 1, rotary_size / 2]
  // On a GPU, if all rows have the same positions: R of each position, [length,
  // head_dim, head_dim]. Multiplying by R's zeros is cheaper than a second pass
  // over memory, and one batched product rotates all rows and heads. `back` is
  // Rᵀ, a view.
  at::Tensor rotation, back;
  // (−sin, sin) [rows, length, 1, head_dim], with which one call rotates both
  // halves. For small x, where calls dominate; else undefined.
  at::Tensor signed_sin;
  // True on devices whose kernels write views incorrectly: nothing is done in
  // place.
  bool by_copy = false;
  // False for layers without rotation: every tensor is undefined.
  bool rotates() const { return rotation.defined() || cos.defined(); }
};

// `table` has [rows or 1, 1, length, rotary_size]; `heads` counts the heads of
// q and k together, which decides between few calls and few passes. Of a head
// of more dimensions (`head_dim`) the first are rotated.
RopeTable MakeRopeTable(const model::RotaryTable& table, int64_t heads,
                        const Options& options, int64_t head_dim = 0);

// y of x, both [rows, length, heads, head_dim]. With table.rotation y is stored
// position by position, as [length, rows, heads, head_dim]; an x stored in the
// same way is read without a copy.
at::Tensor RopeForward(const at::Tensor& x, const RopeTable& table);
// dx of dy, in the layout of RopeForward's tensors.
at::Tensor RopeBackward(const at::Tensor& dy, const RopeTable& table);

struct AttentionBlockTape {
  at::Tensor rstd;
  LoraTape qkv, out;
  ResidualSum::Tape sum;
  attention::AttentionTape attention;
  // Only for models that normalise q and k: q and k before their norm, [tokens,
  // heads, dim] or, if it is over all heads, [tokens, heads · dim]; its rstd.
  at::Tensor raw_q, raw_k, q_rstd, k_rstd;

  void KeepAdaptersOnly() {
    AttentionBlockTape kept;
    kept.qkv = qkv;
    kept.out = out;
    *this = kept;
  }
};

// The first half of a decoder layer. Rows are tokens: x, n, h and their
// gradients [tokens, hidden_size]; q and o [tokens, heads · dim]; k and v
// [tokens, kv_heads · dim]. Linears are in LinearGroup, norms in norm.h: both
// add their weights' gradients; attention is in core/model/planned_attention.h.
// Forward:
//   n  = norm(x), or x in a layer without this norm
//   q, k, v = n W_qᵀ + …, n W_kᵀ + …, n W_vᵀ + …      one LinearGroup
//   q′ = rope(q_norm(q)),  k′ = rope(k_norm(k))        norms: of some models
//   o  = attention(q′, k′, v)
//   z  = o W_oᵀ + …                                    another LinearGroup
//   h  = x + s m(z)                                    ResidualSum
// Backward:
//   do = dz W_o + …
//   dq′, dk′, dv = the gradients of attention by q′, k′ and v
//   dq = q_normᵀ(ropeᵀ(dq′)),  dk = k_normᵀ(ropeᵀ(dk′))
//   dn = dq W_q + dk W_k + dv W_v + …
//   dx = dh + normᵀ(dn)
// where fᵀ(dy) is the gradient by f's input, and "…" is the biases (forward)
// and the adapters' terms. If no gradient is needed below o, or below q, k and
// v, Backward ends there.
class AttentionBlock {
 public:
  // `layer` must outlive it.
  AttentionBlock(const model::DecoderLayer& layer,
                 const attention::HeadShape& shape, const Options& options,
                 const spec::ModelConfig& config, LoraPack& pack);

  at::Tensor Forward(const at::Tensor& x, const attention::AttentionPlan& plan,
                     const RopeTable& rope, AttentionBlockTape& tape) const;
  // Completes a tape in which KeepAdaptersOnly has kept only the adapters'
  // part; returns h.
  at::Tensor ForwardAgain(const at::Tensor& x,
                          const attention::AttentionPlan& plan,
                          const RopeTable& rope,
                          AttentionBlockTape& tape) const;
  // Returns dx, or an undefined tensor if `wants_dx` is false. May overwrite
  // dh.
  at::Tensor Backward(const at::Tensor& dh, const at::Tensor& x,
                      const attention::AttentionPlan& plan,
                      const RopeTable& rope, const AttentionBlockTape& tape,
                      bool wants_dx) const;

  bool trained() const { return qkv_.trained() || out_.trained(); }

 private:
  // o, from the projections: qkv[0] is q and k concatenated, qkv[1] is v.
  at::Tensor Attend(const std::vector<at::Tensor>& qkv,
                    const attention::AttentionPlan& plan, const RopeTable& rope,
                    AttentionBlockTape& tape) const;
  // q′ and k′ (v stays undefined) from q and k concatenated, [tokens, (heads +
  // kv_heads) · dim].
  attention::AttentionInputs Rotate(const at::Tensor& qk,
                                    const attention::AttentionPlan& plan,
                                    const RopeTable& rope,
                                    AttentionBlockTape& tape) const;
  // dq and dk concatenated, from dq′ and dk′.
  at::Tensor RotateBack(const attention::AttentionInputs& grad,
                        const attention::AttentionPlan& plan,
                        const RopeTable& rope,
                        const AttentionBlockTape& tape) const;

  const model::DecoderLayer& layer_;
  const attention::HeadShape shape_;
  const Options options_;
  const ResidualSum sum_;
  LinearGroup qkv_, out_;
};

}  // namespace mpsd::explicit_step
