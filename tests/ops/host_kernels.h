// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_OPS_HOST_KERNELS_H_
#define MPSD_TESTS_OPS_HOST_KERNELS_H_

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace mpsd::ops {

// Runs an operator on host tensors: its arguments lie on `stack`, its results
// will. Also those that only MPS has a kernel of (linear_backward), those that
// MPS rounds where the CPU does not (the backward of softmax) and, on Meta
// tensors, those that torch has no shape function of.
void RunOnHost(const c10::OperatorHandle& op, bool meta,
               torch::jit::Stack& stack);

}  // namespace mpsd::ops

#endif  // MPSD_TESTS_OPS_HOST_KERNELS_H_
