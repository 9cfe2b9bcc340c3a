// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/device/device.h"

namespace mpsd::device {
namespace {

TEST(CudaDeviceTest, OpensOrSaysWhatIsMissing) {
  auto device = OpenCuda();
  if (!device.ok()) {
    EXPECT_EQ(device.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(device.status().message()),
                testing::HasSubstr("no CUDA device"));
    return;
  }
  const int64_t before = *(*device)->GetMemory().current_allocated;
  const at::Tensor tensor =
      at::zeros({1 << 20}, at::device((*device)->torch_device()));
  EXPECT_GE(*(*device)->GetMemory().current_allocated - before, 4 << 20);
  (*device)->Seed(3);
  const at::Tensor state = (*device)->RngState();
  const at::Tensor first = at::randn_like(tensor).cpu();
  (*device)->SetRngState(state);
  EXPECT_TRUE(at::equal(first, at::randn_like(tensor).cpu()));
}

}  // namespace
}  // namespace mpsd::device
