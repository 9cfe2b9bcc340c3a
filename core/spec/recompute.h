// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_SPEC_RECOMPUTE_H_
#define MPSD_CORE_SPEC_RECOMPUTE_H_

namespace mpsd::spec {

// Which activations of a layer the backward recomputes instead of keeping them.
// The gradient is the same for all choices.
enum class Recompute {
  kNone,       // the forward keeps all that the backward reads
  kSelective,  // recomputes the widest, the MLP's inner activations; autograd
               // recomputes whole layers instead
  kFull,       // recomputes the whole layer from its input
};

}  // namespace mpsd::spec

#endif  // MPSD_CORE_SPEC_RECOMPUTE_H_
