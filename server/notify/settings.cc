// SPDX-License-Identifier: Apache-2.0
#include "server/notify/settings.h"

#include <unistd.h>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/base/printable.h"
#include "core/base/secret_file.h"
#include "server/fetch/url.h"

namespace mpsd::notify {
namespace {

constexpr size_t kLeastSecret = 16, kMostSecret = 4096;

absl::Status CheckWebhook(const Settings& settings) {
  if (settings.webhook.empty()) {
    if (settings.webhook_secret.empty() && settings.webhook_ca_file.empty()) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        "--notify-webhook-secret-file and --notify-webhook-ca-file belong to "
        "a webhook: give --notify-webhook too");
  }
  if (!fetch::ParseUrl(settings.webhook).ok()) {
    return absl::InvalidArgumentError(
        "--notify-webhook: expected a URL as https://example.com/hook");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckSettings(const Settings& settings) {
  if (absl::Status s = CheckWebhook(settings); !s.ok()) return s;
  if (!settings.command.empty() && !settings.command[0].starts_with('/')) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--notify-command: '", base::Quotable(settings.command[0]),
        "' is no absolute path of a program; no shell looks it up"));
  }
  if (settings.desktop && ::access(kOsascript, X_OK) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--notify-desktop: only macOS has ", kOsascript,
        "; elsewhere let --notify-command run a program that shows the text"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadSecret(const std::filesystem::path& path) {
  const absl::StatusOr<std::string> bytes =
      base::ReadSecretFile(path, kMostSecret);
  if (!bytes.ok()) return bytes.status();
  const absl::string_view secret = absl::StripAsciiWhitespace(*bytes);
  if (secret.size() < kLeastSecret || secret.find('\n') != secret.npos) {
    return absl::InvalidArgumentError(
        absl::StrCat(path.string(), ": expected one line of at least ",
                     kLeastSecret, " bytes, as `openssl rand -hex 32` prints"));
  }
  return std::string(secret);
}

}  // namespace mpsd::notify
