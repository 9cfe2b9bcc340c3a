// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_NOTIFY_SETTINGS_H_
#define MPSD_SERVER_NOTIFY_SETTINGS_H_

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "core/report/report.h"

namespace mpsd::notify {

// What mpsd may report. The end of a hold and of a low disk belongs to its
// beginning.
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

struct Settings {
  // A program's absolute path and its arguments; empty: nothing is reported.
  std::vector<std::string> command;
  std::set<Topic> topics = {Topic::kSucceeded, Topic::kFailed, Topic::kHold,
                            Topic::kLowDisk};
  int64_t low_disk_bytes = int64_t{5} << 30;
  // How long a hold or a low disk lasts before it is reported, and how long it
  // has been over before its end is.
  absl::Duration settle = absl::Minutes(1);

  bool operator==(const Settings&) const = default;
};

}  // namespace mpsd::notify

#endif  // MPSD_SERVER_NOTIFY_SETTINGS_H_
