// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_FAST_ATTENTION_BLOCK_H_
#define MPSD_CORE_FAST_ATTENTION_BLOCK_H_

#include <ATen/core/Tensor.h>

#include <vector>

#include "core/fast/attention.h"
#include "core/fast/linear_group.h"
#include "core/fast/rope.h"

namespace mpsd::fast {

struct AttentionBlockTape {
  at::Tensor rstd;
  LoraTape qkv, out;
  AttentionTape attention;
  // Of models that normalise q and k: those before it, [tokens, heads, dim],
  // and its statistics.
  at::Tensor raw_q, raw_k, q_rstd, k_rstd;

  void KeepAdaptersOnly() { *this = {{}, qkv, out, {}, {}, {}, {}, {}}; }
};

// h = x + o(attention(rope(q(n)), rope(k(n)), v(n))), n = norm(x), with tokens
// as rows: x and h [tokens, hidden_size]. The backward is what autograd makes
// of it, written out; what is kept is said in the tape.
class AttentionBlock {
 public:
  // `layer` must outlive it.
  AttentionBlock(const model::DecoderLayer& layer, const HeadShape& shape,
                 const Options& options, LoraPack& pack);

  at::Tensor Forward(const at::Tensor& x, const AttentionPlan& plan,
                     const RopeTable& rope, AttentionBlockTape& tape) const;
  // Fills in what a tape that only the adapters' part was kept of lacks;
  // returns h.
  at::Tensor Again(const at::Tensor& x, const AttentionPlan& plan,
                   const RopeTable& rope, AttentionBlockTape& tape) const;
  // dx of dh; undefined unless wanted. May overwrite dh.
  at::Tensor Backward(const at::Tensor& dh, const at::Tensor& x,
                      const AttentionPlan& plan, const RopeTable& rope,
                      const AttentionBlockTape& tape, bool wants_dx) const;

  bool adapted() const { return qkv_.adapted() || out_.adapted(); }

 private:
  // The attention's output of the projections, q with k and v.
  at::Tensor Attend(const std::vector<at::Tensor>& qkv,
                    const AttentionPlan& plan, const RopeTable& rope,
                    AttentionBlockTape& tape) const;
  // Rotated q and k of [tokens, (heads + kv_heads) · dim], and back.
  AttentionInputs Rotate(const at::Tensor& qk, const AttentionPlan& plan,
                         const RopeTable& rope, AttentionBlockTape& tape) const;
  at::Tensor RotateBack(const AttentionInputs& grad, const AttentionPlan& plan,
                        const RopeTable& rope,
                        const AttentionBlockTape& tape) const;

  const model::DecoderLayer& layer_;
  const HeadShape shape_;
  const Options options_;
  LinearGroup qkv_, out_;
};

}  // namespace mpsd::fast

#endif  // MPSD_CORE_FAST_ATTENTION_BLOCK_H_
