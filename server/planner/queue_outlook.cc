// SPDX-License-Identifier: Apache-2.0
#include "server/planner/queue_outlook.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/limits.h"
#include "server/jobs/job_queue.h"
#include "server/jobs/pause_gate.h"

namespace mpsd::planner {
namespace {

constexpr size_t kNamedJobs = 3;

// "job A", "jobs A, B and 4 others".
std::string Jobs(const std::vector<std::string>& ids) {
  if (ids.size() == 1) return absl::StrCat("job ", ids.front());
  const size_t named = std::min(ids.size(), kNamedJobs);
  std::string text = absl::StrCat(
      "jobs ", absl::StrJoin(ids.begin(), ids.begin() + named, ", "));
  const size_t more = ids.size() - named;
  if (more > 0) absl::StrAppend(&text, " and ", more, " more");
  return text;
}

// What is left of the running job, by its last step.
std::optional<absl::Duration> LeftOf(jobs::JobReader& reader,
                                     const std::string& id) {
  const absl::StatusOr<jobs::Job> job = reader.Get(id);
  if (!job.ok() || !job->progress) return std::nullopt;
  const double seconds = job->progress->eta_seconds;
  if (!std::isfinite(seconds) || seconds < 0) return std::nullopt;
  return absl::Seconds(seconds);
}

// The jobs ahead, by what is known of them.
struct Ahead {
  int64_t jobs = 0;    // that run before
  int64_t beyond = 0;  // of these, whom nobody looked at
  absl::Duration known;
  std::vector<std::string> stepless, hidden, asleep;
};

Ahead Count(jobs::JobReader& reader, const jobs::QueueListing& listing,
            const std::function<bool(const std::string& owner)>& may_read) {
  Ahead ahead;
  ahead.beyond = ahead.jobs = listing.more;
  for (const jobs::QueuePlace& place : listing.places) {
    if (place.waits_for_somebody) {
      ahead.asleep.push_back(place.id);
      continue;
    }
    ++ahead.jobs;
    if (may_read && !may_read(place.owner)) {
      ahead.hidden.push_back(place.id);
      continue;
    }
    const std::optional<absl::Duration> left =
        place.state == jobs::State::kRunning ? LeftOf(reader, place.id)
                                             : place.time_left;
    if (left) {
      ahead.known += *left;
    } else {
      ahead.stepless.push_back(place.id);
    }
  }
  return ahead;
}

// Why no queued job starts, or the running one does not train.
std::string WhyHeld(const jobs::ManagerInfo& info) {
  if (!info.hold.empty() || info.pause_reasons.empty()) return info.hold;
  return absl::StrCat("no job trains: ", jobs::Describe(info.pause_reasons));
}

// Each reason for which no wait can be told.
std::vector<std::string> Unknown(const Ahead& ahead, bool held) {
  std::vector<std::string> unknown;
  if (held) unknown.push_back("how long the queue is held");
  if (!ahead.stepless.empty()) {
    unknown.push_back(absl::StrCat(
        "how long ", Jobs(ahead.stepless),
        ahead.stepless.size() == 1 ? " takes: it has" : " take: they have",
        " not finished a step yet"));
  }
  if (!ahead.hidden.empty()) {
    unknown.push_back(
        absl::StrCat("how long ", Jobs(ahead.hidden),
                     ahead.hidden.size() == 1 ? " takes" : " take",
                     ": only the owner and admins may know"));
  }
  if (ahead.beyond > 0) {
    unknown.push_back(absl::StrCat("how long ", ahead.beyond,
                                   " jobs take that stand behind the first ",
                                   limits::kQueueEntries));
  }
  return unknown;
}

}  // namespace

jobs::PlanQueue LookAhead(
    jobs::JobReader& reader, const std::string& owner, int32_t priority,
    const std::function<bool(const std::string& owner)>& may_read) {
  const Ahead ahead =
      Count(reader, reader.QueueBefore(owner, priority, limits::kQueueEntries),
            may_read);
  jobs::PlanQueue queue;
  queue.jobs_ahead = ahead.jobs;
  queue.why = WhyHeld(reader.Info());
  queue.not_told = Unknown(ahead, !queue.why.empty());
  if (queue.not_told.empty()) {
    queue.wait = ahead.known;
  } else if (ahead.known > absl::ZeroDuration()) {
    queue.not_told.push_back(absl::StrCat("the other jobs ahead take ",
                                          jobs::RoundTime(ahead.known)));
  }
  // They change no wait as long as nobody lets them go.
  if (!ahead.asleep.empty()) {
    queue.not_told.push_back(absl::StrCat("when ", Jobs(ahead.asleep),
                                          ahead.asleep.size() == 1
                                              ? " is let go, which then goes"
                                              : " are let go, which then go",
                                          " first"));
  }
  return queue;
}

}  // namespace mpsd::planner
