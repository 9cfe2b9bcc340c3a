// SPDX-License-Identifier: Apache-2.0
#include "server/prometheus/exposition_format.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/http/negotiate.h"

namespace mpsd::prometheus {
namespace {

constexpr char kOpenMetrics[] = "application/openmetrics-text";
constexpr char kText[] = "text/plain";

// The version that a preference names, else `otherwise`.
std::string VersionOf(const http::Preference& preference,
                      const char* otherwise) {
  const auto version = preference.parameters.find("version");
  return version == preference.parameters.end() ? otherwise : version->second;
}

}  // namespace

ExpositionFormat ChosenFormat(std::string_view accept) {
  double open_quality = 0, text_quality = 0;
  std::string open_version;
  for (const http::Preference& wanted : http::ParsePreferences(accept)) {
    if (wanted.name == kOpenMetrics) {
      const std::string version = VersionOf(wanted, "1.0.0");
      const bool known = version == "1.0.0" || version == "0.0.1";
      if (!known || wanted.quality <= open_quality) continue;
      open_quality = wanted.quality;
      open_version = version;
    } else if (wanted.name == kText && VersionOf(wanted, "0.0.4") == "0.0.4") {
      text_quality = std::max(text_quality, wanted.quality);
    }
  }
  if (open_quality > 0 && open_quality >= text_quality) {
    return {true, absl::StrCat(kOpenMetrics, "; version=", open_version,
                               "; charset=utf-8")};
  }
  return {false, absl::StrCat(kText, "; version=0.0.4; charset=utf-8")};
}

}  // namespace mpsd::prometheus
