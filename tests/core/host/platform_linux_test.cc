// SPDX-License-Identifier: Apache-2.0
// The contract of platform.h, whichever system implements it.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "absl/time/clock.h"
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

TEST(PlatformTest, ResidentMemoryGrowsWithTouchedMemory) {
  constexpr int64_t kBytes = 64 << 20;
  const int64_t before = ReadProcessUsage().resident_bytes.value();
  std::vector<char> memory(kBytes);
  std::memset(memory.data(), 1, kBytes);
  EXPECT_GT(before, 0);
  EXPECT_GE(ReadProcessUsage().resident_bytes.value() - before, kBytes / 2);
  EXPECT_EQ(memory[kBytes - 1], 1);
}

TEST(PlatformTest, CountsTheOpenDescriptors) {
  const ProcessUsage before = ReadProcessUsage();
  const int first = open("/dev/null", O_RDONLY), second = dup(first);
  ASSERT_GE(second, 0);
  EXPECT_EQ(ReadProcessUsage().open_descriptors.value(),
            before.open_descriptors.value() + 2);
  close(first);
  close(second);
  EXPECT_EQ(ReadProcessUsage().open_descriptors, before.open_descriptors);
  EXPECT_GT(before.most_descriptors.value(), before.open_descriptors.value());
}

TEST(PlatformTest, CpuTimeGrowsWithWork) {
  const double before = ReadProcessUsage().cpu_seconds.value();
  const absl::Time end = absl::Now() + absl::Seconds(60);
  while (ReadProcessUsage().cpu_seconds.value() < before + 0.05 &&
         absl::Now() < end) {
  }
  EXPECT_GE(ReadProcessUsage().cpu_seconds.value(), before + 0.05);
}

// The kernel keeps the machine's start to a second.
TEST(PlatformTest, TellsWhenTheProcessStarted) {
  const double start = ReadProcessUsage().start_time_seconds.value();
  const double now = absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch());
  EXPECT_LE(start, now + 2);
  EXPECT_GE(start, now - 3600);
  EXPECT_EQ(ReadProcessUsage().start_time_seconds, start);
}

TEST(PlatformTest, DescribesTheMachine) {
  EXPECT_GT(PhysicalMemoryBytes(), int64_t{1} << 28);
  EXPECT_FALSE(ProcessorName().empty());
  EXPECT_THAT(OperatingSystem(), testing::ContainsRegex("^[A-Z][a-z]+ [0-9]"));
}

}  // namespace
}  // namespace mpsd::host
