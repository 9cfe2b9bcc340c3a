// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "core/host/machine.h"

namespace mpsd::host {
namespace {

TEST(BootId, IsTheSameUntilTheMachineRestarts) {
  EXPECT_EQ(BootId(), BootId());
  EXPECT_EQ(BootId().size(), 36) << BootId();
  EXPECT_EQ(BootId().find_first_not_of("0123456789abcdef-"), std::string::npos);
}

TEST(PhysicalMemory, IsThatOfAMachine) {
  EXPECT_GT(PhysicalMemory(), int64_t{1} << 28);
  EXPECT_LT(PhysicalMemory(), int64_t{1} << 50);
}

}  // namespace
}  // namespace mpsd::host
