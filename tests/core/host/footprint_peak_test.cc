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
  // The block is there for longer and longer, up to a minute, until the peak's
  // own thread has looked: a busy machine may hold that thread up.
  const int64_t much = before + static_cast<int64_t>(kBlock) / 2;
  absl::Duration held = absl::Milliseconds(50);
  for (; peak.bytes() <= much && held < absl::Minutes(1); held *= 2) {
    const auto block = std::make_unique<char[]>(kBlock);
    std::memset(block.get(), 1, kBlock);
    absl::SleepFor(held);
  }
  EXPECT_GT(peak.bytes(), much);
  peak.Reset();
  EXPECT_LT(peak.bytes(), before + static_cast<int64_t>(kBlock) / 2);
}

}  // namespace
}  // namespace mpsd::host
