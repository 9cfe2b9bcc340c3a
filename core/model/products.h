// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_MODEL_PRODUCTS_H_
#define MPSD_CORE_MODEL_PRODUCTS_H_

#include <ATen/core/Tensor.h>

// Calls whose backward is not what autograd would make of them, for the sake of
// MPS: fp32 GEMMs with transposed views on the left are wrong there
// (pytorch#193487), and kernels have left targets unwritten that are not
// contiguous.
namespace mpsd::model {

// a b and a bᵀ; a [.., m, k], the same leading sizes in both. In the backward
// left sides are contiguous, and so are the gradients by b.
at::Tensor Product(const at::Tensor& a, const at::Tensor& b);
at::Tensor ProductOfTransposed(const at::Tensor& a, const at::Tensor& b);

// x itself; its gradient is made contiguous.
at::Tensor WithContiguousGradient(const at::Tensor& x);

}  // namespace mpsd::model

#endif  // MPSD_CORE_MODEL_PRODUCTS_H_
