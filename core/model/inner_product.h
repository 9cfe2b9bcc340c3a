// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_MODEL_INNER_PRODUCT_H_
#define MPSD_CORE_MODEL_INNER_PRODUCT_H_

#include <ATen/core/Tensor.h>

#include <optional>

namespace mpsd::products {

// x wᵀ + bias in fp32 on the CPU; x [m, k], w [n, k], bias [n], any strides.
// Uses oneDNN's inner product if torch was built with oneDNN and m is not
// small: it is 5 to 15 % faster than oneDNN's GEMM and the GEMM behind at::mm
// (torch 2.15, x86-64). Its sums are less exact: an error of 4e-7 of the result
// at k = 576 against 2.5e-7 for at::mm, and 5e-7 at k = 1,536. In the forward
// this becomes 4e-5 of the gradients over thirty layers of a real model. In the
// backward it is visible only for a head, whose sums are as long as the
// vocabulary.
at::Tensor InnerProduct(const at::Tensor& x, const at::Tensor& w,
                        const std::optional<at::Tensor>& bias = std::nullopt);

}  // namespace mpsd::products

#endif  // MPSD_CORE_MODEL_INNER_PRODUCT_H_
