// SPDX-License-Identifier: Apache-2.0
#include "core/device/card.h"

#include <dlfcn.h>

#include <array>
#include <cstddef>

#include "core/base/printable.h"

namespace mpsd::device {
namespace {

// CUDA's driver API, a C interface that stays compatible with old programs.
// Zero is success.
using Init = int (*)(unsigned int flags);
using DeviceGet = int (*)(int* device, int ordinal);
using DeviceGetName = int (*)(char* name, int bytes, int device);
using DeviceTotalMem = int (*)(size_t* bytes, int device);

template <typename Function>
Function Find(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

}  // namespace

std::optional<Card> FirstCard(const char* driver) {
  // Never closed: the driver keeps threads.
  void* library = dlopen(driver, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return std::nullopt;
  const auto init = Find<Init>(library, "cuInit");
  const auto get = Find<DeviceGet>(library, "cuDeviceGet");
  const auto get_name = Find<DeviceGetName>(library, "cuDeviceGetName");
  const auto total = Find<DeviceTotalMem>(library, "cuDeviceTotalMem_v2");
  int device = 0;
  std::array<char, 256> name = {};
  size_t bytes = 0;
  if (init == nullptr || get == nullptr || get_name == nullptr ||
      total == nullptr || init(0) != 0 || get(&device, 0) != 0 ||
      get_name(name.data(), name.size() - 1, device) != 0 ||
      total(&bytes, device) != 0) {
    return std::nullopt;
  }
  return Card{base::Printable(name.data()), static_cast<int64_t>(bytes)};
}

}  // namespace mpsd::device
