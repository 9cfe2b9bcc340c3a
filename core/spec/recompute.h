// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_SPEC_RECOMPUTE_H_
#define MPSD_CORE_SPEC_RECOMPUTE_H_

namespace mpsd::spec {

// The activations of a layer that the backward computes again instead of
// keeping them. The gradient is the same with every choice.
enum class Recompute {
  kNone,       // the forward keeps all that the backward reads
  kSelective,  // recomputes the widest, the MLP's inner activations; autograd
               // recomputes whole layers instead
  kFull,       // recomputes the whole layer from its input
};

}  // namespace mpsd::spec

#endif  // MPSD_CORE_SPEC_RECOMPUTE_H_
