// SPDX-License-Identifier: Apache-2.0
#include "core/base/bytes_text.h"

#include <cmath>

#include "absl/strings/str_format.h"

namespace mpsd::base {
namespace {

struct Unit {
  double bytes, least;
  int digits;
  const char* name;
};
// Each `least` is the first value that would round to 1024 of the smaller unit.
constexpr double kKiB = 1024, kMiB = 1024 * kKiB, kGiB = 1024 * kMiB,
                 kTiB = 1024 * kGiB;
constexpr Unit kUnits[] = {{kTiB, 1023.995 * kGiB, 2, "TiB"},
                           {kGiB, 1023.95 * kMiB, 2, "GiB"},
                           {kMiB, 1023.95 * kKiB, 1, "MiB"},
                           {kKiB, 1023.5, 1, "KiB"}};

}  // namespace

std::string BytesText(double bytes) {
  for (const Unit& unit : kUnits) {
    if (std::abs(bytes) < unit.least) continue;
    return absl::StrFormat("%.*f %s", unit.digits, bytes / unit.bytes,
                           unit.name);
  }
  return absl::StrFormat("%.0f B", bytes);
}

}  // namespace mpsd::base
