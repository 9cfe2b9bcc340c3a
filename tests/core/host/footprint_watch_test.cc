// SPDX-License-Identifier: Apache-2.0
#include "core/host/footprint_watch.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "absl/time/clock.h"

namespace mpsd::host {
namespace {

constexpr size_t kBlock = 64 << 20;

TEST(FootprintWatch, TellsThePeakWhileItLives) {
  EXPECT_EQ(PeakFootprintBytes(), std::nullopt);
  {
    const FootprintWatch watch;
    const auto before = PeakFootprintBytes();
    ASSERT_TRUE(before);
    {
      const auto block = std::make_unique<char[]>(kBlock);
      std::memset(block.get(), 1, kBlock);
      absl::SleepFor(absl::Milliseconds(300));
    }
    EXPECT_GT(*PeakFootprintBytes(),
              *before + static_cast<int64_t>(kBlock) / 2);
  }
  EXPECT_EQ(PeakFootprintBytes(), std::nullopt);
}

TEST(FootprintWatchDeathTest, OneAtATime) {
  const FootprintWatch watch;
  EXPECT_DEATH(FootprintWatch(), "one footprint watch");
}

}  // namespace
}  // namespace mpsd::host
