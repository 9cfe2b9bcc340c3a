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

// The ends that mpsd may report: the words of --notify-on.
inline constexpr report::EnumName<jobs::State> kTopics[] = {
    {jobs::State::kSucceeded, "succeeded"},
    {jobs::State::kFailed, "failed"},
    {jobs::State::kCancelled, "cancelled"}};

struct Settings {
  // A program's absolute path and its arguments; empty: nothing is reported.
  std::vector<std::string> command;
  std::set<jobs::State> topics = {jobs::State::kSucceeded,
                                  jobs::State::kFailed};

  bool operator==(const Settings&) const = default;
};

// One message. deploy/README.md documents the body's members.
struct Notice {
  // The same at every attempt, even after a restart of mpsd, and unique:
  // receivers recognize a repeated notice by it.
  std::string id;
  std::string event;  // "succeeded", "failed", "cancelled", "test"
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
Notice TestNotice(const Sender& sender, absl::Time time);

}  // namespace mpsd::notify
