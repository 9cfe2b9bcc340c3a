// SPDX-License-Identifier: Apache-2.0
#include "core/explicit_step/mlp_block.h"

#include <ATen/ATen.h>

#include "core/base/check.h"
#include "core/device/block_mark.h"

namespace mpsd::explicit_step {

MlpBlock::MlpBlock(const model::DecoderLayer& layer, const Options& options,
                   const spec::ModelConfig& config, LoraPack& pack)
    : layer_(layer),
      options_(options),
      gelu_(config.hidden_act != "silu"),
      sum_{layer.mlp_out_norm, config.residual_scale},
      // Two outputs: elementwise kernels are fastest on dense tensors.
      gate_up_(
          config.fused ? Parts{{&layer.gate}}
                       : Parts{{&layer.gate}, {&layer.up}},
          WeightOf(layer.mlp_norm), options, pack,
          std::vector<int64_t>(config.fused ? 2 : 0, config.intermediate_size)),
      down_({{&layer.down}}, {}, options, pack) {}

at::Tensor MlpBlock::Activate(const at::Tensor& gate) const {
  return gelu_ ? at::gelu(gate, "tanh") : at::silu(gate);
}

void MlpBlock::ActivateBackward(at::Tensor& d, const at::Tensor& gate) const {
  if (gelu_) {
    d = at::gelu_backward(d, gate, "tanh");
  } else {
    at::silu_backward_out(d, d, gate);
  }
}

at::Tensor MlpBlock::Forward(const at::Tensor& h, MlpTape& tape) const {
  const profile::BlockMark mark("mpsd::mlp");
  const Normed n = NormForward(h, layer_.mlp_norm, options_);
  tape.rstd = n.rstd;
  const auto outputs = gate_up_.Forward(n.y, {}, tape.gate_up);
  const at::Tensor a = Activate(outputs[0]).mul_(outputs[1]);
  tape.gate = outputs[0];
  tape.up = outputs[1];
  return sum_.Forward(down_.Forward(a, sum_.Residual(h), tape.down)[0], h,
                      tape.sum, options_);
}

void MlpBlock::ForwardAgain(const at::Tensor& h, MlpTape& tape) const {
  const profile::BlockMark mark("mpsd::mlp again");
  const Normed n = NormForward(h, layer_.mlp_norm, options_);
  tape.rstd = n.rstd;
  const auto outputs = gate_up_.ForwardAgain(n.y, {}, tape.gate_up);
  tape.gate = outputs[0];
  tape.up = outputs[1];
  if (!layer_.mlp_out_norm) return;
  const at::Tensor a = Activate(tape.gate).mul_(tape.up);
  sum_.Forward(down_.ForwardAgain(a, {}, tape.down)[0], h, tape.sum, options_);
}

at::Tensor MlpBlock::Backward(const at::Tensor& dy, const at::Tensor& h,
                              MlpTape& tape, bool wants_dh) const {
  const profile::BlockMark mark("mpsd::mlp backward");
  base::Check(tape.gate.defined() && tape.up.defined(),
              "Backward comes after Forward or ForwardAgain");
  const bool below = wants_dh || gate_up_.trained();
  at::Tensor act;
  if (down_.trained()) act = Activate(tape.gate);
  at::Tensor da = down_.Backward({sum_.Backward(dy, tape.sum, options_)},
                                 {.tensor = [&] { return act * tape.up; }},
                                 tape.down, below);
  if (!below) return {};
  // Each result overwrites an operand that is not read again, so that the
  // backward adds few tensors [tokens, intermediate_size]: dg overwrites
  // u and du act(g), which itself overwrote g unless down is trained.
  at::Tensor dgate = tape.up.mul_(da);
  ActivateBackward(dgate, tape.gate);
  if (!act.defined()) act = gelu_ ? Activate(tape.gate) : at::silu_(tape.gate);
  at::Tensor dup = act.mul_(da);
  da.reset();
  const at::Tensor dn = gate_up_.Backward(
      {dgate, dup}, gate_up_.OfNorm(h, tape.rstd, layer_.mlp_norm),
      tape.gate_up, wants_dh);
  if (!wants_dh) return {};
  return NormBackward(dn, h, tape.rstd, layer_.mlp_norm, dy, options_);
}

}  // namespace mpsd::explicit_step
