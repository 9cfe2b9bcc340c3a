// SPDX-License-Identifier: Apache-2.0
#include "core/device/traits.h"

#include <gtest/gtest.h>

namespace mpsd::device {
namespace {

using backend::Choice;

TEST(TraitsTest, ADevicesAreThoseOfItsBackend) {
  EXPECT_EQ(&TraitsOf(at::kCPU), &backend::TraitsOf(Choice::kCpu));
  EXPECT_EQ(&TraitsOf(at::Device(at::kCUDA, 1)),
            &backend::TraitsOf(Choice::kCuda));
  EXPECT_EQ(&TraitsOf(at::Device(at::kMPS, 0)),
            &backend::TraitsOf(Choice::kMps));
}

// As whatever else torch has: nothing of the host's is taken for granted.
TEST(TraitsTest, ADeviceThatIsNoneOfThemIsAGpu) {
  EXPECT_FALSE(TraitsOf(at::kMeta).is_reference);
  EXPECT_TRUE(TraitsOf(at::kMeta).strided_targets);
}

}  // namespace
}  // namespace mpsd::device
