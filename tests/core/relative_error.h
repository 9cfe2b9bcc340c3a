// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

namespace mpsd {
inline namespace testing_support {

// |a − b| / |b| in fp64, by the L2 norm; 1e9 where the sizes differ.
inline double RelativeError(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes()) return 1e9;
  const at::Tensor wide = b.to(at::kDouble);
  return ((a.to(at::kDouble) - wide).norm() / wide.norm().clamp_min(1e-30))
      .item<double>();
}

}  // namespace testing_support
}  // namespace mpsd
