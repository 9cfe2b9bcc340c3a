// SPDX-License-Identifier: Apache-2.0
#include "core/explicit_step/attention_block.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "core/base/check.h"
#include "core/device/block_mark.h"

namespace mpsd::explicit_step {
namespace {

constexpr int64_t kMaxRotation = int64_t{1} << 27;  // 256 MiB in bf16
// Below this many numbers per row of q and k, calls cost more than passes over
// memory.
constexpr int64_t kMinRotated = int64_t{1} << 21;

// R = diag(cos) + P diag(sin) of every position, [length, head_dim, head_dim];
// P swaps the halves: x P = (−hi, lo). `cos` and `sin` [length, 1, head_dim].
at::Tensor Rotations(const at::Tensor& cos, const at::Tensor& sin) {
  const int64_t dim = cos.size(-1), half = dim / 2;
  const at::Tensor one = at::eye(dim, cos.options());
  const at::Tensor swap =
      at::cat({one.narrow(0, half, half), one.narrow(0, 0, half).neg()});
  return one * cos + swap * sin;
}

at::Tensor ByRotation(const at::Tensor& x, const at::Tensor& rotation) {
  // The batch of the product is the position, so that one R serves all rows and
  // heads. The transpose is a view if x is stored position by position.
  if (x.size(0) == 1) return at::bmm(x.select(0, 0), rotation).unsqueeze(0);
  const at::Tensor y = at::bmm(
      x.transpose(0, 1).flatten(/*start_dim=*/1, /*end_dim=*/2), rotation);
  return y.view({x.size(1), x.size(0), x.size(2), x.size(3)}).transpose(0, 1);
}

// R [length, dim, dim] from that of the first dimensions: it leaves the others
// as they are.
at::Tensor Extended(const at::Tensor& rotation, int64_t dim) {
  const int64_t length = rotation.size(0), part = rotation.size(1);
  if (part == dim) return rotation;
  const at::Tensor kept = at::eye(dim, rotation.options())
                              .narrow(0, part, dim - part)
                              .expand({length, dim - part, dim});
  const at::Tensor zeros =
      at::zeros({length, part, dim - part}, rotation.options());
  return at::cat({at::cat({rotation, zeros}, 2), kept}, 1);
}

// x R with `sign` 1, x Rᵀ with `sign` −1: the transpose rotates by the negative
// angle.
at::Tensor Rotate(const at::Tensor& x, const RopeTable& table, double sign) {
  if (!table.rotates()) return x;
  if (table.rotation.defined()) {
    return ByRotation(x, sign > 0 ? table.rotation : table.back);
  }
  const int64_t width = table.cos.size(-1), half = width / 2;
  if (width < x.size(-1)) {
    const auto parts = x.split_with_sizes({width, x.size(-1) - width}, -1);
    return at::cat({Rotate(parts[0], table, sign), parts[1]}, -1);
  }
  if (table.by_copy) {
    const at::Tensor swapped = at::cat(
        {x.narrow(-1, half, half).mul(-sign), x.narrow(-1, 0, half).mul(sign)},
        -1);
    return x * table.cos + swapped * at::cat({table.sin, table.sin}, -1);
  }
  at::Tensor y = x * table.cos;
  if (table.signed_sin.defined()) {
    const at::Tensor swapped = at::roll(x, half, -1).mul_(table.signed_sin);
    return sign > 0 ? y.add_(swapped) : y.sub_(swapped);
  }
  y.narrow(-1, 0, half).addcmul_(x.narrow(-1, half, half), table.sin, -sign);
  y.narrow(-1, half, half).addcmul_(x.narrow(-1, 0, half), table.sin, sign);
  return y;
}

}  // namespace

RopeTable MakeRopeTable(const model::RotaryTable& table, int64_t heads,
                        const Options& options, int64_t head_dim) {
  RopeTable result;
  if (!table.cos.defined()) return result;
  const int64_t length = table.cos.size(2), dim = table.cos.size(-1);
  const int64_t whole = std::max(dim, head_dim);
  if (options.traits.cheap_products && table.cos.size(0) == 1 &&
      length * whole * whole <= kMaxRotation) {
    result.rotation = Extended(Rotations(table.cos.view({length, 1, dim}),
                                         table.sin.view({length, 1, dim})),
                               whole);
    result.back = result.rotation.transpose(1, 2);
    return result;
  }
  result.cos = table.cos.transpose(1, 2);
  result.sin = table.sin.narrow(-1, 0, dim / 2).transpose(1, 2);
  result.by_copy = !options.traits.strided_targets;
  if (length * heads * dim < kMinRotated && !result.by_copy) {
    result.signed_sin = at::cat({result.sin.neg(), result.sin}, -1);
  }
  result.sin = result.sin.contiguous();
  return result;
}

at::Tensor RopeForward(const at::Tensor& x, const RopeTable& table) {
  return Rotate(x, table, 1);
}

at::Tensor RopeBackward(const at::Tensor& dy, const RopeTable& table) {
  return Rotate(dy, table, -1);
}

AttentionBlock::AttentionBlock(const model::DecoderLayer& layer,
                               const attention::HeadShape& shape,
                               const Options& options,
                               const spec::ModelConfig& config, LoraPack& pack)
    : layer_(layer),
      shape_(shape),
      options_(options),
      sum_{layer.attention_out_norm, config.residual_scale},
      // q and k share an output, since rope takes both in one call; v, which is
      // not rotated, stays separate and dense.
      qkv_(config.fused ? Parts{{&layer.q}}
                        : Parts{{&layer.q, &layer.k}, {&layer.v}},
           WeightOf(layer.attention_norm), options, pack,
           config.fused
               ? std::vector<int64_t>{config.q_size() + config.kv_size(),
                                      config.kv_size()}
               : std::vector<int64_t>()),
      out_({{&layer.o}}, {}, options, pack) {}

attention::AttentionInputs AttentionBlock::Rotate(
    const at::Tensor& qk, const attention::AttentionPlan& plan,
    const RopeTable& rope, AttentionBlockTape& tape) const {
  const int64_t heads = shape_.heads, kv_heads = shape_.kv_heads;
  // Rope treats all heads alike, so q and k pass it concatenated: half the
  // calls. Norms of q and k have separate weights and divide the two.
  if (!layer_.q_norm) {
    const at::Tensor both = RopeForward(plan.ByRow(qk, shape_.dim), rope);
    return {.q = both.narrow(2, 0, heads),
            .k = both.narrow(2, heads, kv_heads),
            .v = {}};
  }
  // Columns of a head, or of all heads, and the groups of columns of q and k.
  const bool whole = layer_.q_norm->weight.size(0) != shape_.dim;
  const auto part = [&](int64_t begin, int64_t count) {
    const at::Tensor x =
        qk.narrow(1, begin * shape_.dim, count * shape_.dim).contiguous();
    return whole ? x : x.view({x.size(0), count, shape_.dim});
  };
  tape.raw_q = part(0, heads);
  tape.raw_k = part(heads, kv_heads);
  const Normed q = NormForward(tape.raw_q, *layer_.q_norm, options_);
  const Normed k = NormForward(tape.raw_k, *layer_.k_norm, options_);
  tape.q_rstd = q.rstd;
  tape.k_rstd = k.rstd;
  return {.q = RopeForward(plan.ByRow(q.y, shape_.dim), rope),
          .k = RopeForward(plan.ByRow(k.y, shape_.dim), rope),
          .v = {}};
}

at::Tensor AttentionBlock::Attend(const std::vector<at::Tensor>& qkv,
                                  const attention::AttentionPlan& plan,
                                  const RopeTable& rope,
                                  AttentionBlockTape& tape) const {
  attention::AttentionInputs inputs = Rotate(qkv[0], plan, rope, tape);
  inputs.v = plan.ByRow(qkv[1], shape_.dim);
  return attention::AttentionForward(inputs, plan, shape_, tape.attention);
}

at::Tensor AttentionBlock::Forward(const at::Tensor& x,
                                   const attention::AttentionPlan& plan,
                                   const RopeTable& rope,
                                   AttentionBlockTape& tape) const {
  const profile::BlockMark mark("mpsd::attention");
  const Normed n = NormForward(x, layer_.attention_norm, options_);
  tape.rstd = n.rstd;
  const auto qkv = qkv_.Forward(n.y, {}, tape.qkv);
  const at::Tensor o = Attend(qkv, plan, rope, tape);
  return sum_.Forward(out_.Forward(o, sum_.Residual(x), tape.out)[0], x,
                      tape.sum, options_);
}

at::Tensor AttentionBlock::ForwardAgain(const at::Tensor& x,
                                        const attention::AttentionPlan& plan,
                                        const RopeTable& rope,
                                        AttentionBlockTape& tape) const {
  const profile::BlockMark mark("mpsd::attention again");
  const Normed n = NormForward(x, layer_.attention_norm, options_);
  tape.rstd = n.rstd;
  const auto qkv = qkv_.ForwardAgain(n.y, {}, tape.qkv);
  const at::Tensor o = Attend(qkv, plan, rope, tape);
  return sum_.Forward(out_.ForwardAgain(o, sum_.Residual(x), tape.out)[0], x,
                      tape.sum, options_);
}

at::Tensor AttentionBlock::RotateBack(const attention::AttentionInputs& grad,
                                      const attention::AttentionPlan& plan,
                                      const RopeTable& rope,
                                      const AttentionBlockTape& tape) const {
  if (!layer_.q_norm) {
    return plan.Tokens(RopeBackward(plan.Join(grad.q, grad.k), rope));
  }
  const auto back = [&](const at::Tensor& dy, const at::Tensor& raw,
                        const at::Tensor& rstd, const model::RmsNorm& norm) {
    const at::Tensor d = plan.Tokens(RopeBackward(dy, rope)).view(raw.sizes());
    return NormBackward(d, raw, rstd, norm, {}, options_);
  };
  const at::Tensor dq = back(grad.q, tape.raw_q, tape.q_rstd, *layer_.q_norm);
  const at::Tensor dk = back(grad.k, tape.raw_k, tape.k_rstd, *layer_.k_norm);
  return at::cat({dq, dk}, 1).flatten(/*start_dim=*/1);
}

at::Tensor AttentionBlock::Backward(const at::Tensor& dh, const at::Tensor& x,
                                    const attention::AttentionPlan& plan,
                                    const RopeTable& rope,
                                    const AttentionBlockTape& tape,
                                    bool wants_dx) const {
  const profile::BlockMark mark("mpsd::attention backward");
  base::Check(tape.attention.q.defined(),
              "Backward comes after Forward or ForwardAgain");
  const bool below = wants_dx || qkv_.trained();
  const at::Tensor dout = out_.Backward(
      {sum_.Backward(dh, tape.sum, options_)},
      {.tensor = [&] { return tape.attention.out; }}, tape.out, below);
  if (!below) return {};
  const attention::AttentionInputs grad = attention::AttentionBackward(
      dout, plan, shape_, options_, tape.attention);
  const at::Tensor dn = qkv_.Backward(
      {RotateBack(grad, plan, rope, tape), plan.Tokens(grad.v)},
      qkv_.OfNorm(x, tape.rstd, layer_.attention_norm), tape.qkv, wants_dx);
  if (!wants_dx) return {};
  return NormBackward(dn, x, tape.rstd, layer_.attention_norm, dh, options_);
}

}  // namespace mpsd::explicit_step
