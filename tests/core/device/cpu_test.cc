// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/device/device.h"
#include "core/host/platform.h"

namespace mpsd::device {
namespace {

TEST(CpuDeviceTest, SaysWhatItIs) {
  auto device = *OpenCpu();
  EXPECT_TRUE(device->traits().is_reference);
  EXPECT_EQ(device->name(), "cpu");
  EXPECT_TRUE(device->torch_device().is_cpu());
  EXPECT_EQ(device->chip(), host::ProcessorName());
  EXPECT_THAT(device->description(), testing::HasSubstr("threads"));
}

TEST(CpuDeviceTest, HasNoAllocatorCountersButASize) {
  const Memory memory = (*OpenCpu())->GetMemory();
  EXPECT_FALSE(memory.current_allocated.has_value());
  EXPECT_FALSE((*OpenCpu())->utilization_ratio().has_value());
  EXPECT_GT(memory.recommended_max.value_or(0), int64_t{1} << 28);
}

// Blocks of loading go back, those of a step stay.
TEST(CpuDeviceTest, FreedBlocksStayOnceStepsBegin) {
#if !defined(__GLIBC__) || defined(__SANITIZE_ADDRESS__) || \
    defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "another allocator";
#endif
  constexpr int64_t kBytes = int64_t{24} << 20;
  const auto touch = [] { at::ones({kBytes / 4}); };
  auto device = *OpenCpu();
  const int64_t before = host::ProcessFootprintBytes();
  touch();
  EXPECT_LT(host::ProcessFootprintBytes(), before + kBytes / 2);
  device->BeginSteps();
  touch();
  EXPECT_GT(host::ProcessFootprintBytes(), before + kBytes / 2);
  device->EmptyCache();
  EXPECT_LT(host::ProcessFootprintBytes(), before + kBytes / 2);
}

TEST(CpuDeviceTest, TheSameSeedDrawsTheSame) {
  auto device = *OpenCpu();
  device->Seed(7);
  const at::Tensor first = at::randn({8});
  device->Seed(7);
  EXPECT_TRUE(at::equal(first, at::randn({8})));
  device->Seed(8);
  EXPECT_FALSE(at::equal(first, at::randn({8})));
}

}  // namespace
}  // namespace mpsd::device
