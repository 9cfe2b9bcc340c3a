// SPDX-License-Identifier: Apache-2.0
// The contract of platform.h, whichever system implements it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "core/host/platform.h"

namespace mpsd::host {
namespace {

TEST(PlatformTest, TheFootprintGrowsWithTouchedMemory) {
  constexpr size_t kBytes = 64 << 20;
  const int64_t before = ProcessFootprintBytes();
  std::vector<char> memory(kBytes);
  std::memset(memory.data(), 1, kBytes);
  const int64_t after = ProcessFootprintBytes();
  EXPECT_GT(before, 0);
  EXPECT_GE(after - before, static_cast<int64_t>(kBytes / 2));
  EXPECT_EQ(memory[kBytes - 1], 1);
}

TEST(PlatformTest, DescribesTheMachine) {
  EXPECT_GT(PhysicalMemoryBytes(), int64_t{1} << 28);
  EXPECT_FALSE(ProcessorName().empty());
  EXPECT_THAT(OperatingSystem(), testing::ContainsRegex("^[A-Z][a-z]+ [0-9]"));
}

}  // namespace
}  // namespace mpsd::host
