// SPDX-License-Identifier: Apache-2.0
#include "client/terminal.h"

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace mpsd::client {

bool IsUtf8Locale(const char* lc_all, const char* lc_ctype, const char* lang) {
  for (const char* value : {lc_all, lc_ctype, lang}) {
    const absl::string_view name = value == nullptr ? "" : value;
    if (name.empty()) continue;
    const std::string lower = absl::AsciiStrToLower(name);
    return absl::StrContains(lower, "utf-8") ||
           absl::StrContains(lower, "utf8");
  }
  return false;
}

}  // namespace mpsd::client
