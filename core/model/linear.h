// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_MODEL_LINEAR_H_
#define MPSD_CORE_MODEL_LINEAR_H_

#include <ATen/core/Tensor.h>

#include <memory>

#include "core/model/quantized_weight.h"

namespace mpsd::quant {

// y = x Wᵀ + b in x's dtype, with a gradient for x only. Nothing dense is kept
// between forward and backward: the backward decodes W again.
//   x [.., columns]; bias [rows] in x's dtype, or undefined
at::Tensor LinearForward(const at::Tensor& x,
                         const std::shared_ptr<const QuantizedWeight>& weight,
                         const at::Tensor& bias);

}  // namespace mpsd::quant

#endif  // MPSD_CORE_MODEL_LINEAR_H_
