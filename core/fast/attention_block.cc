// SPDX-License-Identifier: Apache-2.0
#include "core/fast/attention_block.h"

#include <ATen/ATen.h>

#include "core/fast/norm.h"

namespace mpsd::fast {

AttentionBlock::AttentionBlock(const model::DecoderLayer& layer,
                               const HeadShape& shape, const Options& options,
                               LoraPack& pack)
    : layer_(layer),
      shape_(shape),
      options_(options),
      qkv_({{&layer.q, &layer.k}, {&layer.v}}, layer.input_norm.weight, options,
           pack),
      out_({{&layer.o}}, {}, options, pack) {}

void AttentionBlock::Rotate(const at::Tensor& qk, const RopeTable& rope,
                            const AttentionInputs& inputs,
                            AttentionBlockTape& tape) const {
  if (inputs.qk.defined() && !layer_.q_norm) {
    return RopeForward(qk.view(inputs.qk.sizes()), rope, inputs.qk);
  }
  const int64_t q_size = shape_.heads * shape_.dim;
  const int64_t kv_size = shape_.kv_heads * shape_.dim;
  at::Tensor q = qk.narrow(1, 0, q_size).view(inputs.q.sizes());
  at::Tensor k = qk.narrow(1, q_size, kv_size).view(inputs.k.sizes());
  if (layer_.q_norm) {
    tape.raw_q = q.contiguous();
    tape.raw_k = k.contiguous();
    Normed normed = NormForward(tape.raw_q, *layer_.q_norm, options_);
    q = normed.y;
    tape.q_rstd = normed.rstd;
    normed = NormForward(tape.raw_k, *layer_.k_norm, options_);
    k = normed.y;
    tape.k_rstd = normed.rstd;
  }
  RopeForward(q, rope, inputs.q);
  RopeForward(k, rope, inputs.k);
}

at::Tensor AttentionBlock::Attend(const std::vector<at::Tensor>& qkv,
                                  const AttentionPlan& plan,
                                  const RopeTable& rope,
                                  AttentionBlockTape& tape) const {
  const AttentionInputs inputs =
      PrepareAttention(qkv[1], plan, shape_, options_, tape.attention);
  Rotate(qkv[0], rope, inputs, tape);
  return AttentionForward(plan, shape_, options_, tape.attention);
}

at::Tensor AttentionBlock::Forward(const at::Tensor& x,
                                   const AttentionPlan& plan,
                                   const RopeTable& rope,
                                   AttentionBlockTape& tape) const {
  const Normed n = NormForward(x, layer_.input_norm, options_);
  tape.rstd = n.rstd;
  const auto qkv = qkv_.Forward(n.y, {}, tape.qkv);
  return out_.Forward(Attend(qkv, plan, rope, tape), x, tape.out)[0];
}

at::Tensor AttentionBlock::Again(const at::Tensor& x, const AttentionPlan& plan,
                                 const RopeTable& rope,
                                 AttentionBlockTape& tape) const {
  const Normed n = NormForward(x, layer_.input_norm, options_);
  tape.rstd = n.rstd;
  const auto qkv = qkv_.Again(n.y, {}, tape.qkv);
  return out_.Again(Attend(qkv, plan, rope, tape), x, tape.out)[0];
}

at::Tensor AttentionBlock::RotateBack(const AttentionInputs& grad,
                                      const RopeTable& rope,
                                      const AttentionBlockTape& tape) const {
  const int64_t tokens = grad.v.size(0) * grad.v.size(1);
  if (rope.signed_sin.defined() && grad.q.dim() == 4 && !layer_.q_norm) {
    const at::Tensor both = at::cat({grad.q, grad.k}, 2);
    const at::Tensor qk = at::empty_like(both);
    RopeBackward(both, rope, qk);
    return qk.view({tokens, -1});
  }
  const int64_t q_size = shape_.heads * shape_.dim;
  const int64_t kv_size = shape_.kv_heads * shape_.dim;
  const at::Tensor qk = at::empty({tokens, q_size + kv_size}, grad.v.options());
  const at::Tensor q = qk.narrow(1, 0, q_size).view(grad.q.sizes());
  const at::Tensor k = qk.narrow(1, q_size, kv_size).view(grad.k.sizes());
  if (!layer_.q_norm) {
    RopeBackward(grad.q, rope, q);
    RopeBackward(grad.k, rope, k);
    return qk;
  }
  const at::Tensor dq = at::empty_like(tape.raw_q);
  const at::Tensor dk = at::empty_like(tape.raw_k);
  RopeBackward(grad.q, rope, dq);
  RopeBackward(grad.k, rope, dk);
  q.copy_(
      NormBackward(dq, tape.raw_q, tape.q_rstd, *layer_.q_norm, {}, options_));
  k.copy_(
      NormBackward(dk, tape.raw_k, tape.k_rstd, *layer_.k_norm, {}, options_));
  return qk;
}

at::Tensor AttentionBlock::Backward(const at::Tensor& dh, const at::Tensor& x,
                                    const AttentionPlan& plan,
                                    const RopeTable& rope,
                                    const AttentionBlockTape& tape,
                                    bool wants_dx) const {
  const bool below = wants_dx || qkv_.adapted();
  const at::Tensor dout = out_.Backward(
      {dh}, {[&] { return tape.attention.out; }, {}}, tape.out, below);
  if (!below) return {};
  const AttentionInputs grad =
      AttentionBackward(dout, plan, shape_, options_, tape.attention);
  const at::Tensor dqk = RotateBack(grad, rope, tape);
  const at::Tensor dv =
      grad.v.reshape({dqk.size(0), shape_.kv_heads * shape_.dim});
  const at::Tensor dn =
      qkv_.Backward({dqk, dv}, qkv_.OfNorm(x, tape.rstd, layer_.input_norm),
                    tape.qkv, wants_dx);
  if (!wants_dx) return {};
  return NormBackward(dn, x, tape.rstd, layer_.input_norm, dh, options_);
}

}  // namespace mpsd::fast
