// SPDX-License-Identifier: Apache-2.0
#include "core/device/device.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include <mutex>

namespace mpsd::device {

at::Tensor CpuRngState() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

void SetCpuRngState(const at::Tensor& state) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_state(state);
}

absl::StatusOr<std::unique_ptr<Device>> OpenBest() {
  if (auto mps = OpenMps(); mps.ok()) return mps;
  if (auto cuda = OpenCuda(); cuda.ok()) return cuda;
  return OpenCpu();
}

}  // namespace mpsd::device
