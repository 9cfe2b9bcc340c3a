// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_MODEL_WIDE_LINEAR_H_
#define MPSD_CORE_MODEL_WIDE_LINEAR_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace mpsd::products {

// at::linear that is also right for vocabularies: its gradient by x sums over
// the outputs, so a layer with more outputs than the device can sum
// (device::Traits::max_sum) is computed in pieces. `bias` may be undefined.
at::Tensor WideLinear(const at::Tensor& x, const at::Tensor& weight,
                      const at::Tensor& bias = {});

// d W in d's dtype; d [n, outputs], W [outputs, width]. Split into sums of as
// many products as the device can sum, which are added in fp32.
at::Tensor TimesWide(const at::Tensor& d, const at::Tensor& weight);

// TimesWide in sums of `inner` products, on any device.
at::Tensor TimesInPieces(const at::Tensor& d, const at::Tensor& weight,
                         int64_t inner);
// WideLinear in pieces of `outputs`, on any device.
at::Tensor LinearInPieces(const at::Tensor& x, const at::Tensor& weight,
                          const at::Tensor& bias, int64_t outputs);

}  // namespace mpsd::products

#endif  // MPSD_CORE_MODEL_WIDE_LINEAR_H_
