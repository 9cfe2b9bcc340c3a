// SPDX-License-Identifier: Apache-2.0
#include "core/device/traits.h"

namespace mpsd::device {

const Traits& TraitsOf(at::Device device) {
  static const Traits all;
  static const Traits of_mps{/*long_sums=*/false, /*transposed_left=*/false,
                             /*strided_targets=*/false};
  return device.is_mps() ? of_mps : all;
}

}  // namespace mpsd::device
