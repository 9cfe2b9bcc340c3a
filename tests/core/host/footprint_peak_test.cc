// SPDX-License-Identifier: Apache-2.0
#include "core/host/footprint_peak.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "absl/time/clock.h"
#include "core/host/platform.h"

namespace mpsd::host {
namespace {

constexpr size_t kBlock = 64 << 20;

TEST(FootprintPeak, RemembersWhatIsGone) {
  FootprintPeak peak;
  const int64_t before = peak.bytes();
  ASSERT_GT(before, 0);
  {
    const auto block = std::make_unique<char[]>(kBlock);
    std::memset(block.get(), 1, kBlock);
    absl::SleepFor(absl::Milliseconds(50));
  }
  EXPECT_GT(peak.bytes(), before + static_cast<int64_t>(kBlock) / 2);
  peak.Reset();
  EXPECT_LT(peak.bytes(), before + static_cast<int64_t>(kBlock) / 2);
}

}  // namespace
}  // namespace mpsd::host
