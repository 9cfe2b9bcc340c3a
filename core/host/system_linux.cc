// SPDX-License-Identifier: Apache-2.0
#include "core/host/host.h"
#include "core/host/linux_files.h"
#include "core/host/machine.h"

namespace mpsd::host {
namespace {

class Linux final : public Host {
 public:
  Reading Read() override { return ReadLinuxFiles("/"); }
  // A server does not sleep, and a desktop only if its user has configured it.
  std::unique_ptr<Awake> KeepAwake(const std::string&) override {
    return nullptr;
  }
};

}  // namespace

std::unique_ptr<Host> OpenHost() { return std::make_unique<Linux>(); }

std::optional<double> GpuUtilization() {
  return ReadLinuxFiles("/").gpu_utilization_ratio;
}

std::optional<int> GpuCores() { return std::nullopt; }

}  // namespace mpsd::host
