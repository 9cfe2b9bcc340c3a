// SPDX-License-Identifier: Apache-2.0
#include "server/http/negotiate.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace mpsd::http {
namespace {

double ParseQuality(const std::string& text) {
  double quality = 0;
  if (!absl::SimpleAtod(text, &quality) || !std::isfinite(quality)) return 0;
  return std::clamp(quality, 0.0, 1.0);
}

std::string Lowered(const std::string& text) {
  return absl::AsciiStrToLower(absl::StripAsciiWhitespace(text));
}

}  // namespace

std::vector<Preference> ParsePreferences(std::string_view header) {
  std::vector<Preference> preferences;
  const std::vector<std::string> entries =
      absl::StrSplit(std::string(header), ',');
  for (const std::string& entry : entries) {
    const std::vector<std::string> parts = absl::StrSplit(entry, ';');
    Preference preference;
    preference.name = Lowered(parts[0]);
    if (preference.name.empty()) continue;
    for (size_t i = 1; i < parts.size(); ++i) {
      const std::pair<std::string, std::string> parameter =
          absl::StrSplit(parts[i], absl::MaxSplits('=', 1));
      const std::string value = Lowered(parameter.second);
      if (const std::string name = Lowered(parameter.first); name == "q") {
        preference.quality = ParseQuality(value);
      } else {
        preference.parameters[name] = value;
      }
    }
    preferences.push_back(std::move(preference));
  }
  return preferences;
}

bool AcceptsGzip(std::string_view accept_encoding) {
  bool any = false;
  for (const Preference& coding : ParsePreferences(accept_encoding)) {
    if (coding.name == "gzip") return coding.quality > 0;
    if (coding.name == "*") any = coding.quality > 0;
  }
  return any;
}

}  // namespace mpsd::http
