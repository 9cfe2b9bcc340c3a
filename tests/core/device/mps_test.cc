// SPDX-License-Identifier: Apache-2.0
#include <ATen/Context.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/device/device.h"

namespace mpsd::device {
namespace {

TEST(MpsDeviceTest, OpensOnAMacAndElsewhereSaysWhatItNeeds) {
  auto device = OpenMps();
  ASSERT_EQ(device.ok(), at::globalContext().hasMPS());
  if (!device.ok()) {
    EXPECT_EQ(device.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(device.status().message()),
                testing::HasSubstr("Apple-silicon"));
    return;
  }
  EXPECT_EQ((*device)->name(), "mps");
  EXPECT_FALSE((*device)->traits().attends_fused());
  EXPECT_GT(*(*device)->GetMemory().recommended_max, 0);
}

}  // namespace
}  // namespace mpsd::device
