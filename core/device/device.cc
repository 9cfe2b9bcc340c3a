// SPDX-License-Identifier: Apache-2.0
#include "core/device/device.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include <mutex>

#include "core/host/platform.h"

namespace mpsd::device {

std::string Device::chip() const { return host::ProcessorName(); }

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

absl::StatusOr<std::unique_ptr<Device>> Open(backend::Choice choice) {
  switch (choice) {
    case backend::Choice::kMps:
      return OpenMps();
    case backend::Choice::kCuda:
      return OpenCuda();
    case backend::Choice::kCpu:
      return OpenCpu();
    case backend::Choice::kAuto:
      break;
  }
  return OpenBest();
}

}  // namespace mpsd::device
