// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_DEVICE_TRAITS_H_
#define MPSD_CORE_DEVICE_TRAITS_H_

#include <ATen/core/Tensor.h>

#include "core/host/traits.h"

namespace mpsd::device {

using backend::Traits;

// The traits of a tensor's device. Code that has a Device calls
// Device::traits() instead.
const Traits& TraitsOf(at::Device device);

}  // namespace mpsd::device

#endif  // MPSD_CORE_DEVICE_TRAITS_H_
