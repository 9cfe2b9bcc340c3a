// SPDX-License-Identifier: Apache-2.0
#include "core/device/traits.h"

namespace mpsd::device {

const Traits& TraitsOf(at::Device device) {
  using backend::Choice;
  if (device.is_mps()) return backend::TraitsOf(Choice::kMps);
  return backend::TraitsOf(device.is_cpu() ? Choice::kCpu : Choice::kCuda);
}

}  // namespace mpsd::device
