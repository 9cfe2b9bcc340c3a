// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_SPEC_RECOMPUTE_H_
#define MPSD_CORE_SPEC_RECOMPUTE_H_

namespace mpsd::spec {

// What the backward of a layer computes again instead of finding it kept.
// Whatever is chosen, the gradient is the same.
enum class Recompute {
  kNone,       // nothing: the forward keeps all that the backward reads
  kSelective,  // the widest, the MLP's inner activations; autograd knows whole
               // layers alone, and computes those again
  kFull,       // the whole layer: of it only its input is kept
};

}  // namespace mpsd::spec

#endif  // MPSD_CORE_SPEC_RECOMPUTE_H_
