// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "server/jobs/pause_gate.h"

namespace mpsd::jobs {
namespace {

bool QuietAt(const char* hours, int hour, int minute,
             absl::TimeZone zone = absl::UTCTimeZone()) {
  const absl::Time now = absl::FromCivil(
      absl::CivilMinute(2026, 1, 2, hour, minute), absl::UTCTimeZone());
  return IsQuiet(*ParseQuietHours(hours), now, zone);
}

TEST(ParseQuietHours, ReadsTwoTimes) {
  EXPECT_EQ(*ParseQuietHours("22:00-07:30"), (QuietHours{1320, 450}));
  EXPECT_EQ(*ParseQuietHours("00:00-23:59"), (QuietHours{0, 1439}));
  EXPECT_EQ(ToString(*ParseQuietHours("22:00-07:05")), "22:00-07:05");
}

TEST(ParseQuietHours, RefusesEverythingElse) {
  for (const char* text :
       {"", "22:00", "22-7", "24:00-07:00", "22:60-07:00", "22:00-07:00 ",
        "2:00-07:00", "22:00-22:00", "ab:cd-ef:gh", "22:00-07:00-08:00"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseQuietHours(text).status()))
        << text;
  }
}

TEST(IsQuiet, WithinADay) {
  EXPECT_FALSE(QuietAt("09:00-17:00", 8, 59));
  EXPECT_TRUE(QuietAt("09:00-17:00", 9, 0));
  EXPECT_TRUE(QuietAt("09:00-17:00", 16, 59));
  EXPECT_FALSE(QuietAt("09:00-17:00", 17, 0));
}

TEST(IsQuiet, AroundMidnight) {
  EXPECT_FALSE(QuietAt("22:00-07:00", 21, 59));
  EXPECT_TRUE(QuietAt("22:00-07:00", 22, 0));
  EXPECT_TRUE(QuietAt("22:00-07:00", 0, 0));
  EXPECT_TRUE(QuietAt("22:00-07:00", 6, 59));
  EXPECT_FALSE(QuietAt("22:00-07:00", 7, 0));
  EXPECT_FALSE(QuietAt("22:00-07:00", 12, 0));
}

TEST(IsQuiet, ByTheClockOnTheWall) {
  const absl::TimeZone east = absl::FixedTimeZone(3 * 3600);
  EXPECT_TRUE(QuietAt("22:00-07:00", 19, 0, east));
  EXPECT_FALSE(QuietAt("22:00-07:00", 4, 0, east));
}

}  // namespace
}  // namespace mpsd::jobs
