// SPDX-License-Identifier: Apache-2.0
#include "server/hub/settings.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "core/base/limits.h"
#include "core/base/secret_file.h"
#include "server/fetch/url.h"

namespace mpsd::hub {

absl::Status CheckSettings(const Settings& settings) {
  if (settings.url.empty()) {
    if (settings == Settings()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "--hub-token-file, --hub-ca-file and --hub-allow-private belong to a "
        "hub: give --hub too");
  }
  const absl::StatusOr<fetch::Url> url = fetch::ParseUrl(settings.url);
  // A password would be logged.
  if (!url.ok() || url->has_credentials ||
      url->text.find('?') != std::string::npos) {
    return absl::InvalidArgumentError(
        "--hub: expected the address of a hub, as https://hub.example");
  }
  if (url->scheme == "http" && !settings.token_file.empty() &&
      !fetch::IsLoopback(*url)) {
    return absl::InvalidArgumentError(
        "--hub-token-file: the token would cross the network in plain text; "
        "give --hub as https://");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadToken(const std::filesystem::path& path) {
  if (path.empty()) return std::string();
  const absl::StatusOr<std::string> bytes =
      base::ReadSecretFile(path, limits::kTokenBytes);
  if (!bytes.ok()) return bytes.status();
  std::string token(absl::StripAsciiWhitespace(*bytes));
  if (token.empty() ||
      !std::all_of(token.begin(), token.end(),
                   [](unsigned char c) { return absl::ascii_isgraph(c); })) {
    return absl::InvalidArgumentError(absl::StrCat(
        path.string(), ": expected one line with the hub's token"));
  }
  return token;
}

}  // namespace mpsd::hub
