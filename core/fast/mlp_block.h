// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_FAST_MLP_BLOCK_H_
#define MPSD_CORE_FAST_MLP_BLOCK_H_

#include <ATen/core/Tensor.h>

#include "core/fast/linear_group.h"
#include "core/fast/options.h"
#include "core/model/decoder.h"

namespace mpsd::fast {

struct MlpTape {
  at::Tensor rstd;
  at::Tensor gate, up;  // [tokens, intermediate_size]
  LoraTape gate_up, down;

  void KeepAdaptersOnly() { *this = {{}, {}, {}, gate_up, down}; }
};

// y = h + down(silu(gate(n)) ∘ up(n)), n = norm(h), with tokens as rows.
//   dup = da ∘ silu(g),  dg = da ∘ u ∘ silu'(g),  a = silu(g) ∘ u
class MlpBlock {
 public:
  // `layer` must outlive it.
  MlpBlock(const model::DecoderLayer& layer, const Options& options,
           LoraPack& pack);

  at::Tensor Forward(const at::Tensor& h, MlpTape& tape) const;
  // Fills in what a tape that only the adapters' part was kept of lacks.
  void Again(const at::Tensor& h, MlpTape& tape) const;
  // dh of dy; undefined unless wanted. Uses up the tape, may overwrite dy.
  at::Tensor Backward(const at::Tensor& dy, const at::Tensor& h, MlpTape& tape,
                      bool wants_dh) const;

  bool adapted() const { return gate_up_.adapted() || down_.adapted(); }

 private:
  const model::DecoderLayer& layer_;
  const Options options_;
  LinearGroup gate_up_, down_;
};

}  // namespace mpsd::fast

#endif  // MPSD_CORE_FAST_MLP_BLOCK_H_
