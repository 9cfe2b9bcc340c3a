// SPDX-License-Identifier: Apache-2.0
#include "client/text/when.h"

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/printable.h"

namespace mpsd::client {
namespace {

constexpr int64_t kMostUnits = 1'000'000;

absl::Duration UnitOf(char letter) {
  switch (letter) {
    case 'm':
      return absl::Minutes(1);
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

}  // namespace

absl::StatusOr<absl::Time> ParseWhen(const std::string& text, absl::Time now,
                                     absl::TimeZone zone) {
  const std::string digits = text.substr(0, text.empty() ? 0 : text.size() - 1);
  int64_t count = 0;
  if (!digits.empty() &&
      std::all_of(digits.begin(), digits.end(), absl::ascii_isdigit) &&
      absl::SimpleAtoi(digits, &count) && count < kMostUnits &&
      UnitOf(text.back()) != absl::ZeroDuration()) {
    return now - count * UnitOf(text.back());
  }
  absl::Time time;
  std::string error;
  for (const char* format : {"%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M",
                             "%Y-%m-%dT%H:%M:%S", absl::RFC3339_full}) {
    if (absl::ParseTime(format, text, zone, &time, &error)) return time;
  }
  return absl::InvalidArgumentError(
      absl::StrCat(base::Quotable(text),
                   ": expected how long ago, as 2w, 7d, 12h or 30m, or a date, "
                   "as 2026-01-31 or \"2026-01-31 18:00\""));
}

}  // namespace mpsd::client
