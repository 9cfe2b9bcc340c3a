// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "core/report/report.h"
#include "server/jobs/pause_gate.h"
#include "server/store/ended_jobs.h"
#include "server/store/job.h"
#include "server/store/job_store.h"

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

// One message. deploy/README.md documents the body's members.
struct Notice {
  // The same at every attempt, even after a restart of mpsd, and unique:
  // receivers recognize a repeated notice by it.
  std::string id;
  // "succeeded", "failed", "cancelled", "held", "released", "disk_low",
  // "disk_recovered", "test"
  std::string event;
  absl::Time time;    // when it happened
  std::string title;  // "mpsd: job failed"
  std::string text;   // a sentence, printable, one line
  std::string body;   // one JSON object in UTF-8
};

// The sender: the members `host` and `version` of the body.
struct Sender {
  std::string host, version;
};
// This machine's name and this mpsd.
Sender ThisSender();

// `job`: the row as it is now, whose state and message may be those of a later
// attempt; the notice has those of `end`.
Notice EndNotice(const Sender& sender, const jobs::EndedJob& end,
                 const jobs::Job& job);
// `why`: the hold's text; empty: the hold is over.
Notice HoldNotice(const Sender& sender, jobs::HoldReason reason,
                  const std::string& why, absl::Time time);
// `is_low`: fewer bytes are free than `low_bytes`, or no longer.
Notice DiskNotice(const Sender& sender, bool is_low, int64_t free_bytes,
                  int64_t low_bytes, absl::Time time);
Notice TestNotice(const Sender& sender, absl::Time time);

}  // namespace mpsd::notify
