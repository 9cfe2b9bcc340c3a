// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_MODEL_INNER_PRODUCT_H_
#define MPSD_CORE_MODEL_INNER_PRODUCT_H_

#include <ATen/core/Tensor.h>

#include <optional>

namespace mpsd::model {

// x wᵀ + bias in fp32 on the CPU; x [m, k], w [n, k], bias [n], any strides.
// oneDNN's inner product where torch was built with it and m is not small: of
// its fp32 GEMM and of the one behind at::mm it is the faster, by 5 to 15 %
// (torch 2.15, x86-64). Its sums are less exact: 4e-7 of the result at k = 576
// where at::mm has 2.5e-7, 5e-7 at 1,536. Forward, thirty layers of a real
// model make that 4e-5 of its gradients; backward it is not seen, but for a
// head's, whose sums are as long as the vocabulary.
at::Tensor InnerProduct(const at::Tensor& x, const at::Tensor& w,
                        const std::optional<at::Tensor>& bias = std::nullopt);

}  // namespace mpsd::model

#endif  // MPSD_CORE_MODEL_INNER_PRODUCT_H_
