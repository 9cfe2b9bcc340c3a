// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/quiet_hours.h"

#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace mpsd::jobs {
namespace {

constexpr int kHour = 60;
constexpr int kDay = 24 * kHour;

// Minutes since midnight for "07:00", in exactly this form.
std::optional<int> Minute(const std::string& text) {
  if (text.size() != 5 || text[2] != ':') return std::nullopt;
  for (size_t i : {0, 1, 3, 4}) {
    if (!absl::ascii_isdigit(text[i])) return std::nullopt;
  }
  const auto two = [&](size_t i) {
    return 10 * (text[i] - '0') + (text[i + 1] - '0');
  };
  if (two(0) > 23 || two(3) > 59) return std::nullopt;
  return kHour * two(0) + two(3);
}

}  // namespace

absl::StatusOr<QuietHours> ParseQuietHours(const std::string& text) {
  const size_t dash = text.find('-');
  std::optional<int> begin, end;
  if (dash != std::string::npos) {
    begin = Minute(text.substr(0, dash));
    end = Minute(text.substr(dash + 1));
  }
  if (!begin || !end || *begin == *end) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' is no span of hours; write 22:00-07:00"));
  }
  return QuietHours{*begin, *end};
}

bool IsQuiet(const QuietHours& hours, absl::Time now, absl::TimeZone zone) {
  const absl::CivilSecond civil = absl::ToCivilSecond(now, zone);
  const int minute = kHour * civil.hour() + civil.minute();
  const auto since_begin = [&](int m) {
    return (m - hours.begin_minute + kDay) % kDay;
  };
  return since_begin(minute) < since_begin(hours.end_minute);
}

std::string ToString(const QuietHours& hours) {
  return absl::StrFormat("%02d:%02d-%02d:%02d", hours.begin_minute / kHour,
                         hours.begin_minute % kHour, hours.end_minute / kHour,
                         hours.end_minute % kHour);
}

}  // namespace mpsd::jobs
