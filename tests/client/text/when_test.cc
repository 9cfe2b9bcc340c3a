// SPDX-License-Identifier: Apache-2.0
#include "client/text/when.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace mpsd::client {
namespace {

const absl::Time kNow = absl::FromUnixSeconds(1767323045);  // 2026-01-02 03:04
const absl::TimeZone kZone = absl::FixedTimeZone(3600);

TEST(ParseWhen, ReadsSpansAndDates) {
  const absl::Time day =
      absl::FromCivil(absl::CivilSecond(2026, 1, 31, 0, 0, 0), kZone);
  for (const auto& [text, time] :
       std::vector<std::pair<std::string, absl::Time>>{
           {"0m", kNow},
           {"30m", kNow - absl::Minutes(30)},
           {"12h", kNow - absl::Hours(12)},
           {"7d", kNow - absl::Hours(24 * 7)},
           {"2w", kNow - absl::Hours(24 * 14)},
           {"2026-01-31", day},
           {"2026-01-31 18:00", day + absl::Hours(18)},
           {"2026-01-31T18:00", day + absl::Hours(18)},
           {"2026-01-31T18:00:05", day + absl::Hours(18) + absl::Seconds(5)},
           {"2026-01-31T18:00:05Z", day + absl::Hours(19) + absl::Seconds(5)},
           {"2026-01-31T18:00:05.5+01:00",
            day + absl::Hours(18) + absl::Milliseconds(5500)}}) {
    const auto read = ParseWhen(text, kNow, kZone);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, time) << text;
  }
}

TEST(ParseWhen, RefusesOtherText) {
  for (const char* text :
       {"", "d", "7", "7y", "-7d", "1000000d", "99999999999999999999d", "+1d",
        "soon", "2026-13-01", "2026-01-31 25:00", "7 d", "\x1b[2J"}) {
    const auto read = ParseWhen(text, kNow, kZone);
    EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_EQ(read.status().message().find('\x1b'), std::string::npos);
  }
}

}  // namespace
}  // namespace mpsd::client
