// SPDX-License-Identifier: Apache-2.0
#include "core/device/memory_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mpsd::device {
namespace {

using testing::HasSubstr;

constexpr int64_t kMiB = 1 << 20;

class MemoryWatchTest : public testing::Test {
 protected:
  std::optional<std::string> Step(int64_t allocated, int64_t driver) {
    Memory memory;
    memory.current_allocated = allocated * kMiB;
    memory.peak_allocated = (allocated + 5) * kMiB;
    memory.driver_allocated = driver * kMiB;
    memory.recommended_max = 1000 * kMiB;
    return watch_.Observe(memory);
  }
  void WarmUp() {
    for (int i = 0; i < 20; ++i) EXPECT_FALSE(Step(100, 150).has_value());
  }

  MemoryWatch watch_;
};

TEST_F(MemoryWatchTest, ADeviceWithoutCountersHasNoFigures) {
  EXPECT_FALSE(watch_.Observe(Memory()).has_value());
  EXPECT_FALSE(watch_.summary().peak_allocated.has_value());
  EXPECT_FALSE(watch_.summary().peak_driver.has_value());
  EXPECT_FALSE(watch_.summary().overhead_growth.has_value());
}

TEST_F(MemoryWatchTest, KeepsThePeaks) {
  Step(100, 150);
  Step(300, 400);
  Step(200, 350);
  EXPECT_EQ(watch_.summary().peak_allocated, 305 * kMiB);
  EXPECT_EQ(watch_.summary().peak_driver, 400 * kMiB);
}

TEST_F(MemoryWatchTest, GraphsOfTheFirstStepsAreNoGrowth) {
  for (int i = 0; i < 10; ++i) Step(100, 120 + 10 * i);
  EXPECT_FALSE(watch_.summary().overhead_growth.has_value());
  for (int i = 0; i < 10; ++i) Step(100, 220);
  EXPECT_EQ(watch_.summary().overhead_growth, 0);
}

TEST_F(MemoryWatchTest, TellsOnceThatTheDriverGrows) {
  WarmUp();
  EXPECT_FALSE(Step(200, 300).has_value()) << "tensors grew with it";
  EXPECT_FALSE(Step(100, 250).has_value());
  const auto told = Step(100, 251);
  ASSERT_TRUE(told.has_value());
  EXPECT_THAT(*told, HasSubstr("grown by 101 MiB to 151 MiB"));
  EXPECT_FALSE(Step(100, 300).has_value());
  EXPECT_EQ(watch_.summary().overhead_growth, 150 * kMiB);
}

TEST_F(MemoryWatchTest, TellsOnceThatTheDeviceIsNearlyFull) {
  EXPECT_FALSE(Step(900, 950).has_value());
  const auto told = Step(900, 951);
  ASSERT_TRUE(told.has_value());
  EXPECT_THAT(*told, HasSubstr("951 MiB of the 1000 MiB"));
  EXPECT_FALSE(Step(900, 980).has_value());
}

}  // namespace
}  // namespace mpsd::device
