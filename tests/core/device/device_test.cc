// SPDX-License-Identifier: Apache-2.0
#include "core/device/device.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace mpsd::device {
namespace {

TEST(DeviceTest, RestoringTheStateRepeatsTheDraws) {
  const at::Tensor state = CpuRngState();
  const at::Tensor first = at::randn({8});
  EXPECT_FALSE(at::equal(first, at::randn({8})));
  SetCpuRngState(state);
  EXPECT_TRUE(at::equal(first, at::randn({8})));
}

TEST(DeviceTest, TheBestDeviceIsAnAcceleratorWhereThereIsOne) {
  auto best = OpenBest();
  ASSERT_TRUE(best.ok());
  const bool accelerated = OpenMps().ok() || OpenCuda().ok();
  EXPECT_EQ((*best)->traits().is_reference, !accelerated);
}

TEST(DeviceTest, OpensWhatAJobChooses) {
  using backend::Choice;
  EXPECT_EQ((*Open(Choice::kCpu))->name(), "cpu");
  EXPECT_EQ((*Open(Choice::kAuto))->name(), (*OpenBest())->name());
  EXPECT_EQ(Open(Choice::kCuda).ok(), OpenCuda().ok());
  EXPECT_EQ(Open(Choice::kMps).ok(), OpenMps().ok());
}

}  // namespace
}  // namespace mpsd::device
