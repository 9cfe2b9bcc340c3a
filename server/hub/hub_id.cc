// SPDX-License-Identifier: Apache-2.0
#include "server/hub/hub_id.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "core/base/strings.h"

namespace mpsd::hub {
namespace {

bool IsHexadecimal(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
  });
}

}  // namespace

absl::Status CheckHubId(const std::string& id) {
  if (!absl::StrContains(id, "--") && !absl::StrContains(id, "..") &&
      !absl::EndsWith(id, ".git")) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      base::Cat("id: '", id,
                "' is no model's on a hub: '--', '..' and '.git' "
                "at the end are in none"));
}

bool IsCommit(std::string_view text) {
  return text.size() == 40 && IsHexadecimal(text);
}

bool IsSha256(std::string_view text) {
  return text.size() == 64 && IsHexadecimal(text);
}

}  // namespace mpsd::hub
