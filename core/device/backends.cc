// SPDX-License-Identifier: Apache-2.0
#include "core/device/backends.h"

#include <ATen/Version.h>
#include <ATen/detail/MPSHooksInterface.h>
#include <dlfcn.h>

#include <array>
#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "core/base/text.h"
#include "core/device/device.h"

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

namespace {

Backend Look(std::string name,
             const absl::StatusOr<std::unique_ptr<Device>>& device,
             const bool built) {
  Backend backend;
  backend.name = std::move(name);
  backend.available = device.ok();
  // A device that opens is built in, even if its hooks have another name.
  backend.built = built || device.ok();
  if (device.ok()) {
    backend.device = (*device)->description();
  } else {
    backend.problem = std::string(device.status().message());
  }
  return backend;
}

bool BuiltWithMps() { return at::MPSHooksRegistry()->Has("MPSHooks"); }

bool BuiltWithCuda() {
  const std::string config = at::show_config();
  return config.find("USE_CUDA=1") != std::string::npos ||
         config.find("USE_CUDA=ON") != std::string::npos;
}

}  // namespace

// A build with MPS registers its hooks under this name when libtorch_cpu is
// loaded, whether or not there is a device. The hooks of CUDA are in a library
// that may lack others to load, so there the build's own list counts.
std::vector<Backend> ListBackends() {
  std::vector<Backend> backends = {Look("mps", OpenMps(), BuiltWithMps())};
  // Opened before ATen reports its configuration: ATen then asks for CUDA's
  // hooks, only once, and opening loads the library that has them.
  const absl::StatusOr<std::unique_ptr<Device>> cuda = OpenCuda();
  backends.push_back(Look("cuda", cuda, BuiltWithCuda()));
  return backends;
}

backend::Choice LikelyBest() {
  if (BuiltWithMps()) return backend::Choice::kMps;
  if (BuiltWithCuda() && FirstCard()) return backend::Choice::kCuda;
  return backend::Choice::kCpu;
}

}  // namespace mpsd::device
