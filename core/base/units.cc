// SPDX-License-Identifier: Apache-2.0
#include "core/base/units.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/text.h"

namespace mpsd::base {
namespace {

struct Unit {
  const char* name;
  int64_t bytes;
  double least;  // the first value that would round to 1024 of the smaller unit
  int digits;
};
constexpr int64_t kKiB = 1 << 10, kMiB = kKiB << 10, kGiB = kMiB << 10,
                  kTiB = kGiB << 10;
constexpr Unit kUnits[] = {{"TiB", kTiB, 1023.995 * kGiB, 2},
                           {"GiB", kGiB, 1023.95 * kMiB, 2},
                           {"MiB", kMiB, 1023.95 * kKiB, 1},
                           {"KiB", kKiB, 1023.5, 1}};
constexpr int64_t kMostBytes = int64_t{1} << 60;

// More digits of a span back in time are a typing error.
constexpr size_t kSpanDigits = 6;

absl::Duration SpanUnit(char letter) {
  switch (letter) {
    case 's':
      return absl::Seconds(1);
    case 'm':
      return absl::Minutes(1);
    case 'h':
      return absl::Hours(1);
    case 'd':
      return absl::Hours(24);
    default:
      return absl::Hours(24 * 7);
  }
}

}  // namespace

std::string BytesText(double bytes) {
  for (const Unit& unit : kUnits) {
    if (std::abs(bytes) < unit.least) continue;
    return absl::StrFormat("%.*f %s", unit.digits,
                           bytes / static_cast<double>(unit.bytes), unit.name);
  }
  return absl::StrFormat("%.0f B", bytes);
}

std::optional<int64_t> ParseBytes(const std::string& text) {
  std::string digits = text;
  int64_t unit = 1, count = 0;
  for (const Unit& known : kUnits) {
    if (!text.ends_with(known.name)) continue;
    unit = known.bytes;
    digits.resize(text.size() - std::string(known.name).size());
  }
  if (!absl::SimpleAtoi(digits, &count) || count < 0 ||
      count > kMostBytes / unit) {
    return std::nullopt;
  }
  return count * unit;
}

std::optional<absl::Duration> ParseSpan(const std::string& text,
                                        const std::string& units) {
  if (text.size() < 2 || units.find(text.back()) == units.npos) {
    return std::nullopt;
  }
  const std::string digits = text.substr(0, text.size() - 1);
  int64_t count = 0;
  if (!std::all_of(digits.begin(), digits.end(), absl::ascii_isdigit) ||
      !absl::SimpleAtoi(digits, &count)) {
    return std::nullopt;
  }
  return count * SpanUnit(text.back());
}

absl::StatusOr<absl::Time> ParseWhen(const std::string& text, absl::Time now,
                                     absl::TimeZone zone) {
  if (text.size() <= kSpanDigits + 1) {
    if (const auto span = ParseSpan(text)) return now - *span;
  }
  absl::Time time;
  std::string error;
  for (const char* format : {"%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M",
                             "%Y-%m-%dT%H:%M:%S", absl::RFC3339_full}) {
    if (absl::ParseTime(format, text, zone, &time, &error)) return time;
  }
  return absl::InvalidArgumentError(
      absl::StrCat(Quotable(text),
                   ": expected how long ago, as 2w, 7d, 12h or 30m, or a date, "
                   "as 2026-01-31 or \"2026-01-31 18:00\""));
}

}  // namespace mpsd::base
