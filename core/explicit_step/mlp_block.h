// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "core/explicit_step/linear_group.h"
#include "core/explicit_step/norm.h"
#include "core/model/decoder.h"

namespace mpsd::explicit_step {

struct MlpTape {
  at::Tensor rstd;
  at::Tensor gate, up;  // [tokens, intermediate_size]
  ResidualSum::Tape sum;
  LoraTape gate_up, down;

  void KeepAdaptersOnly() {
    MlpTape kept;
    kept.gate_up = gate_up;
    kept.down = down;
    *this = kept;
  }
};

// The second half of a decoder layer. Rows are tokens: h, n, y and their
// gradients [tokens, hidden_size]; g, u, a and theirs [tokens,
// intermediate_size]. Linears are in LinearGroup, the norm is in norm.h: both
// add their weights' gradients. Forward, with silu(g) = g · σ(g), or the tanh
// approximation of gelu instead:
//   n = norm(h)
//   g, u = n W_gateᵀ + …, n W_upᵀ + …      one LinearGroup
//   a = silu(g) ∘ u
//   z = a W_downᵀ + …                      another LinearGroup
//   y = h + s m(z)                         ResidualSum
// Backward, with silu′(g) = σ(g) · (1 + g · (1 − σ(g))):
//   da = dz W_down + …
//   dg = da ∘ u ∘ silu′(g),  du = da ∘ silu(g)
//   dn = dg W_gate + du W_up + …
//   dh = dy + normᵀ(dn)
// where normᵀ(dn) is the gradient by the norm's input, and "…" is the biases
// (forward) and the adapters' terms. The tape keeps g and
// u, not a: the backward recomputes a from them if down is trained.
class MlpBlock {
 public:
  // `layer` must outlive it.
  MlpBlock(const model::DecoderLayer& layer, const Options& options,
           const spec::ModelConfig& config, LoraPack& pack);

  at::Tensor Forward(const at::Tensor& h, MlpTape& tape) const;
  // Completes a tape in which KeepAdaptersOnly has kept only the adapters'
  // part; computes down again only for a norm after it.
  void ForwardAgain(const at::Tensor& h, MlpTape& tape) const;
  // Returns dh, or an undefined tensor if `wants_dh` is false. Overwrites the
  // tape's g and u; may overwrite dy.
  at::Tensor Backward(const at::Tensor& dy, const at::Tensor& h, MlpTape& tape,
                      bool wants_dh) const;

  bool trained() const { return gate_up_.trained() || down_.trained(); }

 private:
  const model::DecoderLayer& layer_;
  // act(g), and da ∘ u ∘ act′(g) from da ∘ u, in place.
  at::Tensor Activate(const at::Tensor& gate) const;
  void ActivateBackward(at::Tensor& d, const at::Tensor& gate) const;

  const Options options_;
  const bool gelu_;
  const ResidualSum sum_;
  LinearGroup gate_up_, down_;
};

}  // namespace mpsd::explicit_step
