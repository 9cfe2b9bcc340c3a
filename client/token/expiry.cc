// SPDX-License-Identifier: Apache-2.0
#include "client/token/expiry.h"

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/printable.h"

namespace mpsd::client {
namespace {

// A longer span is a slip of the keyboard; who means it says "never".
constexpr absl::Duration kLongestSpan = absl::Hours(24 * 365 * 100);

absl::Duration UnitOf(char letter) {
  switch (letter) {
    case 'h':
      return absl::Hours(1);
    case 'd':
      return absl::Hours(24);
    case 'w':
      return absl::Hours(24 * 7);
    default:
      return absl::ZeroDuration();
  }
}

// Zero where `text` is no span.
absl::Duration SpanOf(const std::string& text) {
  if (text.size() < 2) return absl::ZeroDuration();
  const std::string digits = text.substr(0, text.size() - 1);
  int64_t count = 0;
  if (!std::all_of(digits.begin(), digits.end(), absl::ascii_isdigit) ||
      !absl::SimpleAtoi(digits, &count)) {
    return absl::ZeroDuration();
  }
  return count * UnitOf(text.back());
}

std::optional<absl::Time> EndOfDay(const std::string& text,
                                   absl::TimeZone zone) {
  // ParseCivilTime takes other forms, too.
  if (text.size() != 10 || text[4] != '-' || text[7] != '-') {
    return std::nullopt;
  }
  absl::CivilDay day;
  if (!absl::ParseCivilTime(text, &day)) return std::nullopt;
  return absl::FromCivil(day + 1, zone);
}

}  // namespace

absl::StatusOr<std::optional<absl::Time>> ParseExpiry(const std::string& text,
                                                      absl::Time now,
                                                      absl::TimeZone zone) {
  if (text == "never") return std::optional<absl::Time>();
  const absl::Duration span = SpanOf(text);
  if (span > kLongestSpan) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", base::Quotable(text),
                     "' is more than 100 years; say never instead"));
  }
  if (span > absl::ZeroDuration()) return std::optional(now + span);
  const std::optional<absl::Time> end = EndOfDay(text, zone);
  if (!end.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", base::Quotable(text),
                     "' is no time: expected a span as 90d, 12h or 2w, a day "
                     "as 2027-01-31, or never"));
  }
  if (*end > now) return end;
  return absl::InvalidArgumentError(absl::StrCat("the day ", text, " is over"));
}

}  // namespace mpsd::client
