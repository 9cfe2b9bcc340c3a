// SPDX-License-Identifier: Apache-2.0
// MpsDevice over hooks and an allocator of our own: the calls that a Mac would
// get. A program of its own, since torch asks its registry for the hooks once.
// On a Mac the real ones are registered under the same name: nothing here.
#include <gtest/gtest.h>

#ifndef __APPLE__
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/detail/MPSHooksInterface.h>
#include <c10/core/CachingDeviceAllocator.h>

#include "core/device/device.h"

namespace mpsd::device {

struct Metal {
  size_t allocated = 0, driver = 0, recommended = 0;
  int synchronized = 0, committed = 0, emptied = 0;
};
Metal& TheMetal() {
  static Metal metal;
  return metal;
}

// torch finds it by this name.
struct MPSHooks : at::MPSHooksInterface {
  // 2.11 passes arguments, 2.15 passes no argument.
  template <typename... Args>
  explicit MPSHooks(const Args&...) {}
  void init() const override {}
  bool hasMPS() const override { return true; }
  void deviceSynchronize() const override { ++TheMetal().synchronized; }
  void commitStream() const override { ++TheMetal().committed; }
  void emptyCache() const override { ++TheMetal().emptied; }
  size_t getCurrentAllocatedMemory() const override {
    return TheMetal().allocated;
  }
  size_t getDriverAllocatedMemory() const override { return TheMetal().driver; }
  size_t getRecommendedMaxMemory() const override {
    return TheMetal().recommended;
  }
  const at::Generator& getDefaultGenerator(at::DeviceIndex) const override {
    static const at::Generator generator = at::detail::createCPUGenerator();
    return generator;
  }
};

}  // namespace mpsd::device

namespace mpsd::device {
using at::MPSHooksRegistry;
using at::RegistererMPSHooksRegistry;
REGISTER_MPS_HOOKS(MPSHooks);

namespace {

// What MPS has had since torch 2.13.
class Statistics final : public c10::DeviceAllocator {
 public:
  int64_t peak = 0;
  int resets = 0;

  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(
      c10::DeviceIndex) override {
    c10::CachingDeviceAllocator::DeviceStats stats;
    stats.allocated_bytes[0].peak = peak;
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex) override { ++resets; }
  c10::DataPtr allocate(size_t) override { return {}; }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void*, const void*, std::size_t) const override {}
};

class MpsDeviceTest : public testing::Test {
 protected:
  MpsDeviceTest() {
    TheMetal() = {100, 150, 1000};
    c10::SetAllocator(at::kMPS, nullptr);
    auto device = OpenMps().value();
    device_ = std::move(device);
  }
  ~MpsDeviceTest() override { c10::SetAllocator(at::kMPS, nullptr); }

  std::unique_ptr<Device> device_;
};

TEST_F(MpsDeviceTest, HandsWorkOverAndWaits) {
  device_->Commit();
  device_->Commit();
  device_->Synchronize();
  device_->EmptyCache();
  EXPECT_EQ(TheMetal().committed, 2);
  EXPECT_EQ(TheMetal().synchronized, 1);
  EXPECT_EQ(TheMetal().emptied, 1);
}

TEST_F(MpsDeviceTest, ReadsTheCounters) {
  const Memory memory = device_->GetMemory();
  EXPECT_EQ(memory.current_allocated, 100);
  EXPECT_EQ(memory.driver_allocated, 150);
  EXPECT_EQ(memory.recommended_max, 1000);
}

TEST_F(MpsDeviceTest, ThePeakIsTheAllocators) {
  Statistics statistics;
  statistics.peak = 700;
  c10::SetAllocator(at::kMPS, &statistics);
  EXPECT_EQ(device_->GetMemory().peak_allocated, 700);
  device_->ResetPeak();
  EXPECT_EQ(statistics.resets, 1);
}

TEST_F(MpsDeviceTest, WithoutStatisticsThePeakIsTheHighestSample) {
  device_->GetMemory();
  TheMetal().allocated = 400;
  device_->GetMemory();
  TheMetal().allocated = 200;
  EXPECT_EQ(device_->GetMemory().peak_allocated, 400);
  device_->ResetPeak();
  EXPECT_EQ(device_->GetMemory().peak_allocated, 200);
}

TEST_F(MpsDeviceTest, TheGeneratorIsSeededByName) {
  device_->Seed(11);
  const at::Tensor state = device_->RngState();
  EXPECT_EQ(at::detail::getMPSHooks().getDefaultGenerator().current_seed(),
            11u);
  device_->Seed(12);
  EXPECT_FALSE(device_->RngState().equal(state));
  device_->SetRngState(state);
  EXPECT_TRUE(device_->RngState().equal(state));
}

}  // namespace
}  // namespace mpsd::device
#endif  // __APPLE__
