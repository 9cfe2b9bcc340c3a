// SPDX-License-Identifier: Apache-2.0
#include "core/device/traits.h"

#include <gtest/gtest.h>

namespace mpsd::device {
namespace {

TEST(TraitsTest, MpsAloneGetsThingsWrong) {
  const Traits& mps = TraitsOf(at::Device(at::kMPS, 0));
  EXPECT_FALSE(mps.long_sums);
  EXPECT_FALSE(mps.transposed_left);
  EXPECT_FALSE(mps.strided_targets);
  for (const at::DeviceType type : {at::kCPU, at::kCUDA, at::kMeta}) {
    const Traits& traits = TraitsOf(at::Device(type));
    EXPECT_TRUE(traits.long_sums) << type;
    EXPECT_TRUE(traits.transposed_left) << type;
    EXPECT_TRUE(traits.strided_targets) << type;
  }
}

}  // namespace
}  // namespace mpsd::device
