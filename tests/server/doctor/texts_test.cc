// SPDX-License-Identifier: Apache-2.0
#include "server/doctor/texts.h"

#include <gtest/gtest.h>

#include "core/base/printable.h"

namespace mpsd::doctor {
namespace {

TEST(Texts, OfOthersAreCutAndEscaped) {
  EXPECT_EQ(Foreign("WindowServer"), "WindowServer");
  EXPECT_EQ(Foreign("a\x1b[2Jb\n"), "a\\x1b[2Jb\\n");
  EXPECT_EQ(Foreign("\xff"), "\\xff");
  const std::string cut = Foreign(std::string(1 << 20, '\x1b'));
  EXPECT_LE(cut.size(), 256u);
  EXPECT_TRUE(base::IsPrintable(cut));
}

TEST(Texts, Bytes) {
  EXPECT_EQ(BytesText(0), "0 B");
  EXPECT_EQ(BytesText(999), "999 B");
  EXPECT_EQ(BytesText(999'900), "1.0 MB");
  EXPECT_EQ(BytesText(51.5e9), "51.5 GB");
  EXPECT_EQ(BytesText(4e18), "4000.0 PB");
}

TEST(Texts, Ages) {
  EXPECT_EQ(AgeText(absl::Seconds(42)), "42 s");
  EXPECT_EQ(AgeText(absl::Minutes(3)), "3 min");
  EXPECT_EQ(AgeText(absl::Hours(5)), "5 h");
  EXPECT_EQ(AgeText(absl::Hours(24 * 12)), "12 days");
  // The clock was set back.
  EXPECT_EQ(AgeText(-absl::Hours(5)), "0 s");
}

TEST(Texts, Percents) { EXPECT_EQ(PercentText(0.621), "62 %"); }

}  // namespace
}  // namespace mpsd::doctor
