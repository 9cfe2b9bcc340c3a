// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_DEVICE_TRAITS_H_
#define MPSD_CORE_DEVICE_TRAITS_H_

#include <ATen/core/Tensor.h>

namespace mpsd::device {

// What the kernels of a device get right, for those who must call others where
// they do not.
struct Traits {
  // GEMMs whose sums have more than 32,766 products. MPS' read beyond the
  // matrices (pytorch#177116, #195163).
  bool long_sums = true;
  // fp32 GEMMs with a transposed view at their left. MPS' are wrong
  // (pytorch#193487).
  bool transposed_left = true;
  // Results written into tensors that are not contiguous. Kernels of MPS have
  // left them as they were (pytorch#118115, #165267).
  bool strided_targets = true;
};

const Traits& TraitsOf(at::Device device);

}  // namespace mpsd::device

#endif  // MPSD_CORE_DEVICE_TRAITS_H_
