// SPDX-License-Identifier: Apache-2.0
#include "client/token/expiry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace mpsd::client {
namespace {

using ::testing::HasSubstr;

// 2026-01-02 03:04:05 UTC.
const absl::Time kNow = absl::FromUnixSeconds(1767323045);

absl::StatusOr<std::optional<absl::Time>> Parse(
    const std::string& text, absl::TimeZone zone = absl::UTCTimeZone()) {
  return ParseExpiry(text, kNow, zone);
}

TEST(ExpiryTest, ASpanIsFromNowOn) {
  EXPECT_EQ(**Parse("90d"), kNow + absl::Hours(90 * 24));
  EXPECT_EQ(**Parse("12h"), kNow + absl::Hours(12));
  EXPECT_EQ(**Parse("2w"), kNow + absl::Hours(14 * 24));
  EXPECT_EQ(**Parse("1h"), kNow + absl::Hours(1));
  EXPECT_EQ(**Parse("36500d"), kNow + absl::Hours(36500 * 24));
}

TEST(ExpiryTest, ADayCountsToItsEndHere) {
  EXPECT_EQ(**Parse("2026-01-02"), absl::FromUnixSeconds(1767398400));
  EXPECT_EQ(**Parse("2027-01-31"),
            absl::FromCivil(absl::CivilDay(2027, 2, 1), absl::UTCTimeZone()));
  // In Kiritimati the day has begun fourteen hours earlier.
  const absl::TimeZone zone = absl::FixedTimeZone(14 * 3600);
  EXPECT_EQ(**Parse("2027-01-31", zone),
            **Parse("2027-01-31") - absl::Hours(14));
}

TEST(ExpiryTest, NeverIsNever) { EXPECT_EQ(*Parse("never"), std::nullopt); }

TEST(ExpiryTest, WhatIsNoTimeIsRefusedWithWhatIs) {
  for (const char* text : {"",
                           "d",
                           "90",
                           "90 d",
                           " 90d",
                           "90D",
                           "-1d",
                           "+1d",
                           "0d",
                           "0h",
                           "1.5d",
                           "90m",
                           "90s",
                           "90days",
                           "1e3d",
                           "tomorrow",
                           "Never",
                           "2027-1-31",
                           "2027-02-30",
                           "2027-13-01",
                           "2027/01/31",
                           "31-01-2027",
                           "2027-01-31T12:00",
                           "0x9d",
                           "99999999999999999999d",
                           "\x1b[2J",
                           "٩٠d"}) {
    const auto parsed = Parse(text);
    ASSERT_FALSE(parsed.ok()) << text;
    const std::string message(parsed.status().message());
    EXPECT_THAT(message, HasSubstr("90d, 12h or 2w")) << text;
    EXPECT_EQ(message.find('\x1b'), std::string::npos);
  }
}

TEST(ExpiryTest, WhatIsOverAndWhatIsTooFarIsRefused) {
  EXPECT_THAT(std::string(Parse("2026-01-01").status().message()),
              HasSubstr("is over"));
  for (const char* text :
       {"36501d", "876001h", "9223372036854775807d", "9223372036854775807w"}) {
    EXPECT_THAT(std::string(Parse(text).status().message()),
                HasSubstr("say never instead"))
        << text;
  }
}

}  // namespace
}  // namespace mpsd::client
