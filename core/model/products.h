// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_MODEL_PRODUCTS_H_
#define MPSD_CORE_MODEL_PRODUCTS_H_

#include <ATen/core/Tensor.h>

// Products with their own backward, since autograd's is wrong on MPS: its fp32
// GEMMs with transposed views on the left are wrong (pytorch#193487), and its
// kernels have left non-contiguous targets unwritten.
namespace mpsd::products {

// a b and a bᵀ; a [.., m, k], with the same leading sizes in both operands. The
// backward makes its left operands and the gradients by b contiguous.
at::Tensor Product(const at::Tensor& a, const at::Tensor& b);
at::Tensor ProductOfTransposed(const at::Tensor& a, const at::Tensor& b);

// Returns x; the backward makes the gradient contiguous.
at::Tensor WithContiguousGradient(const at::Tensor& x);

}  // namespace mpsd::products

#endif  // MPSD_CORE_MODEL_PRODUCTS_H_
