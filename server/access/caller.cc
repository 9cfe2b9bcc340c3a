// SPDX-License-Identifier: Apache-2.0
#include "server/access/caller.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "core/base/limits.h"

namespace mpsd::access {
namespace {

bool IsWordCharacter(char c) { return absl::ascii_isalnum(c) || c == '_'; }

bool IsNameCharacter(char c) {
  return IsWordCharacter(c) ||
         std::string_view(".@+-").find(c) != std::string_view::npos;
}

}  // namespace

bool IsUserName(std::string_view name) {
  return !name.empty() && name.size() <= limits::kUserBytes &&
         IsWordCharacter(name.front()) &&
         std::all_of(name.begin(), name.end(), IsNameCharacter);
}

}  // namespace mpsd::access
