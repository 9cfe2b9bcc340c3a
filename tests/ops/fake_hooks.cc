// SPDX-License-Identifier: Apache-2.0
// What torch asks about the MPS backend beside its kernels.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/MPSHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "tests/ops/fake_memory.h"
#include "tests/ops/fake_mps.h"

namespace mpsd::ops {
namespace {

// The registry's key is the name of the class.
struct MPSHooks : at::MPSHooksInterface {
  void init() const override {}
  bool hasMPS() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool isOnMacOSorNewer(unsigned, unsigned) const override { return true; }
  // Its kernels draw from the CPU's.
  const at::Generator& getDefaultGenerator(at::DeviceIndex) const override {
    return at::detail::getDefaultCPUGenerator();
  }
  at::Generator getNewGenerator(at::DeviceIndex) const override {
    return at::detail::createCPUGenerator();
  }
  at::Allocator* getMPSDeviceAllocator() const override {
    return FakeAllocator();
  }
  void deviceSynchronize() const override { CountWait(); }
  void commitStream() const override { CountCommit(); }
  void emptyCache() const override {}
  size_t getCurrentAllocatedMemory() const override { return LiveFakeBytes(); }
  size_t getDriverAllocatedMemory() const override { return LiveFakeBytes(); }
  size_t getRecommendedMaxMemory() const override { return size_t{64} << 30; }
  bool hasPrimaryContext(at::DeviceIndex) const override { return true; }
  at::DeviceIndex deviceCount() const override { return 1; }
  void setCurrentDevice(at::DeviceIndex) const override {}
  at::DeviceIndex getCurrentDevice() const override { return 0; }
  at::DeviceIndex exchangeDevice(at::DeviceIndex) const override { return 0; }
  at::DeviceIndex maybeExchangeDevice(at::DeviceIndex) const override {
    return 0;
  }
};

// One device, one stream.
struct Guard final : c10::impl::NoOpDeviceGuardImpl<c10::DeviceType::MPS> {
  c10::Device exchangeDevice(c10::Device) const override { return {type(), 0}; }
  c10::Device getDevice() const override { return {type(), 0}; }
  c10::Stream getStream(c10::Device) const noexcept override {
    return c10::Stream(c10::Stream::DEFAULT, {type(), 0});
  }
  c10::Stream exchangeStream(c10::Stream) const noexcept override {
    return c10::Stream(c10::Stream::DEFAULT, {type(), 0});
  }
};

using at::MPSHooksRegistry;
using at::RegistererMPSHooksRegistry;
REGISTER_MPS_HOOKS(MPSHooks)
C10_REGISTER_GUARD_IMPL(MPS, Guard)

}  // namespace

// Called by InstallFakeMps so that the linker keeps this file.
void KeepFakeHooks() { c10::SetAllocator(c10::kMPS, FakeAllocator()); }

}  // namespace mpsd::ops
