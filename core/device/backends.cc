// SPDX-License-Identifier: Apache-2.0
#include "core/device/backends.h"

#include <ATen/Version.h>
#include <ATen/detail/MPSHooksInterface.h>

#include <memory>

#include "absl/status/statusor.h"
#include "core/device/card.h"
#include "core/device/device.h"

namespace mpsd::device {
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
