// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_NOTIFY_SETTINGS_H_
#define MPSD_SERVER_NOTIFY_SETTINGS_H_

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/report/report.h"

namespace mpsd::notify {

// What people may be told about. The end of a hold and of a low disk belongs to
// its beginning.
enum class Topic { kSucceeded, kFailed, kCancelled, kHold, kLowDisk };
// The words of --notify-on.
inline constexpr report::EnumName<Topic> kTopics[] = {
    {Topic::kSucceeded, "succeeded"},
    {Topic::kFailed, "failed"},
    {Topic::kCancelled, "cancelled"},
    {Topic::kHold, "hold"},
    {Topic::kLowDisk, "low_disk"}};
constexpr std::string_view Name(Topic topic) {
  return report::NameIn(kTopics, topic);
}

// Whom mpsd tells about what; by default nobody.
struct Settings {
  std::string webhook;  // an http or https URL; empty: none
  // The key of the signature; empty: messages are not signed.
  std::string webhook_secret;
  // PEM certificates that the webhook's server is held to in place of the
  // system's; empty: the system's.
  std::filesystem::path webhook_ca_file;
  // A program's absolute path and its arguments; empty: none.
  std::vector<std::string> command;
  bool desktop = false;  // macOS' notifications of this user's session
  std::set<Topic> topics = {Topic::kSucceeded, Topic::kFailed, Topic::kHold,
                            Topic::kLowDisk};
  int64_t low_disk_bytes = int64_t{5} << 30;
  // How long a hold or a low disk lasts before people are told, and how long it
  // has been over before they are told of its end.
  absl::Duration settle = absl::Minutes(1);

  bool operator==(const Settings&) const = default;
  bool HasDoor() const {
    return !webhook.empty() || !command.empty() || desktop;
  }
};

// InvalidArgument names the option and says what it takes. Opens no file and
// reaches no network.
absl::Status CheckSettings(const Settings& settings);

// The key in a file: one line of at least 16 bytes. InvalidArgument for another
// content, else the errors of base::ReadSecretFile.
absl::StatusOr<std::string> ReadSecret(const std::filesystem::path& path);

// The program that shows notifications of macOS.
inline constexpr char kOsascript[] = "/usr/bin/osascript";

}  // namespace mpsd::notify

#endif  // MPSD_SERVER_NOTIFY_SETTINGS_H_
