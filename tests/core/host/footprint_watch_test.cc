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
    // The block is there for longer and longer, up to a minute, until the
    // watch's thread has looked: a busy machine may hold that thread up.
    const int64_t much = *before + static_cast<int64_t>(kBlock) / 2;
    absl::Duration held = absl::Milliseconds(300);
    for (; *PeakFootprintBytes() <= much && held < absl::Minutes(1);
         held *= 2) {
      const auto block = std::make_unique<char[]>(kBlock);
      std::memset(block.get(), 1, kBlock);
      absl::SleepFor(held);
    }
    EXPECT_GT(*PeakFootprintBytes(), much);
  }
  EXPECT_EQ(PeakFootprintBytes(), std::nullopt);
}

TEST(FootprintWatchDeathTest, OneAtATime) {
  const FootprintWatch watch;
  EXPECT_DEATH(FootprintWatch(), "one footprint watch");
}

}  // namespace
}  // namespace mpsd::host
