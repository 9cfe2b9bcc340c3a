// SPDX-License-Identifier: Apache-2.0
#include "server/planner/texts.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/text.h"

namespace mpsd::doctor {

namespace {

constexpr size_t kMostBytes = 256;

}  // namespace

// Cut first: escaping a text of megabytes would make it four times as long.
std::string Foreign(std::string_view text) {
  return base::Shortened(base::Printable(text.substr(0, kMostBytes)),
                         kMostBytes);
}

std::string BytesText(double bytes) {
  constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  size_t unit = 0;
  while (bytes >= 999.5 && unit + 1 < std::size(kUnits)) {
    bytes /= 1000;
    ++unit;
  }
  return unit == 0 ? absl::StrFormat("%.0f B", bytes)
                   : absl::StrFormat("%.1f %s", bytes, kUnits[unit]);
}

std::string AgeText(absl::Duration age) {
  age = std::max(age, absl::ZeroDuration());
  if (age < absl::Minutes(2)) {
    return absl::StrCat(absl::ToInt64Seconds(age), " s");
  }
  if (age < absl::Hours(2)) {
    return absl::StrCat(absl::ToInt64Minutes(age), " min");
  }
  if (age < absl::Hours(48)) {
    return absl::StrCat(absl::ToInt64Hours(age), " h");
  }
  return absl::StrCat(absl::ToInt64Hours(age) / 24, " days");
}

std::string PercentText(double ratio) {
  return absl::StrFormat("%.0f %%", 100 * ratio);
}

}  // namespace mpsd::doctor
