// SPDX-License-Identifier: Apache-2.0
#include "core/study/memory_limit.h"

#include <gtest/gtest.h>

#include "core/host/platform.h"

namespace mpsd::study {
namespace {

TEST(MemoryLimit, TheDriverKnowsMost) {
  MemoryPeaks peaks;
  peaks.footprint_bytes = 3;
  EXPECT_EQ(HeldBytes(peaks), 3);
  EXPECT_STREQ(HeldBy(peaks), "footprint");
  peaks.allocated_bytes = 1;
  EXPECT_EQ(HeldBytes(peaks), 1);
  EXPECT_STREQ(HeldBy(peaks), "allocated");
  peaks.driver_bytes = 2;
  EXPECT_EQ(HeldBytes(peaks), 2);
  EXPECT_STREQ(HeldBy(peaks), "driver");
}

TEST(MemoryLimit, IsAShareOfWhatIsRecommended) {
  MemoryPeaks peaks;
  EXPECT_EQ(MemoryLimit(peaks, 0.5), host::PhysicalMemoryBytes() / 2);
  peaks.recommended_max_bytes = 1000;
  EXPECT_EQ(MemoryLimit(peaks, 0.9), 900);
}

}  // namespace
}  // namespace mpsd::study
