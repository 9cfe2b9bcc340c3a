// SPDX-License-Identifier: Apache-2.0
#include "core/explicit_step/mlp_block.h"

#include <ATen/ATen.h>

#include "core/base/check.h"
#include "core/device/block_mark.h"

namespace mpsd::explicit_step {

MlpBlock::MlpBlock(const model::DecoderLayer& layer, const Options& options,
                   const ResidualSum& sum, LoraPack& pack)
    : layer_(layer),
      options_(options),
      sum_(sum),
      // Two outputs: elementwise kernels are fastest on dense tensors.
      gate_up_({{&layer.gate}, {&layer.up}}, layer.post_attention_norm.weight,
               options, pack),
      down_({{&layer.down}}, {}, options, pack) {}

at::Tensor MlpBlock::Forward(const at::Tensor& h, MlpTape& tape) const {
  const profile::BlockMark mark("mpsd::mlp");
  const Normed n = NormForward(h, layer_.post_attention_norm, options_);
  tape.rstd = n.rstd;
  const auto outputs = gate_up_.Forward(n.y, {}, tape.gate_up);
  const at::Tensor a = at::silu(outputs[0]).mul_(outputs[1]);
  tape.gate = outputs[0];
  tape.up = outputs[1];
  return sum_.Forward(down_.Forward(a, sum_.Residual(h), tape.down)[0], h);
}

void MlpBlock::ForwardAgain(const at::Tensor& h, MlpTape& tape) const {
  const profile::BlockMark mark("mpsd::mlp again");
  const Normed n = NormForward(h, layer_.post_attention_norm, options_);
  tape.rstd = n.rstd;
  const auto outputs = gate_up_.ForwardAgain(n.y, {}, tape.gate_up);
  tape.gate = outputs[0];
  tape.up = outputs[1];
}

at::Tensor MlpBlock::Backward(const at::Tensor& dy, const at::Tensor& h,
                              MlpTape& tape, bool wants_dh) const {
  const profile::BlockMark mark("mpsd::mlp backward");
  base::Check(tape.gate.defined() && tape.up.defined(),
              "Backward comes after Forward or ForwardAgain");
  const bool below = wants_dh || gate_up_.trained();
  at::Tensor silu;
  if (down_.trained()) silu = at::silu(tape.gate);
  at::Tensor da = down_.Backward({sum_.Backward(dy)},
                                 {.tensor = [&] { return silu * tape.up; }},
                                 tape.down, below);
  if (!below) return {};
  // Each result overwrites an operand that is not read again, so that the
  // backward adds few tensors [tokens, intermediate_size]: dg overwrites
  // u and du silu(g), which itself overwrote g unless down is trained.
  at::Tensor dgate = tape.up.mul_(da);
  at::silu_backward_out(dgate, dgate, tape.gate);
  if (!silu.defined()) silu = at::silu_(tape.gate);
  at::Tensor dup = silu.mul_(da);
  da.reset();
  const at::Tensor dn = gate_up_.Backward(
      {dgate, dup}, gate_up_.OfNorm(h, tape.rstd, layer_.post_attention_norm),
      tape.gate_up, wants_dh);
  if (!wants_dh) return {};
  return NormBackward(dn, h, tape.rstd, layer_.post_attention_norm, dy,
                      options_);
}

}  // namespace mpsd::explicit_step
