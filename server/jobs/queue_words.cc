// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/queue_words.h"

#include "absl/strings/str_cat.h"

namespace mpsd::jobs {
namespace {

std::string OwnerOf(const JobQueue::Entry& entry) {
  return entry.owner.empty() ? "its owner, who has no name," : entry.owner;
}

}  // namespace

std::string WhyThere(const JobQueue::Entry& entry, absl::Duration used,
                     absl::Duration half_life) {
  if (entry.behind) {
    return "behind all others once: its last attempt ended early without a "
           "new checkpoint";
  }
  std::string priority = absl::StrCat("priority ", entry.priority);
  if (entry.among_all && entry.place != 0) {
    return absl::StrCat(priority, ", moved ",
                        entry.place < 0 ? "before" : "behind",
                        " all others of it by an admin");
  }
  if (entry.place < 0) absl::StrAppend(&priority, ", moved up");
  if (entry.place > 0) absl::StrAppend(&priority, ", moved down");
  if (half_life <= absl::ZeroDuration()) {
    return priority + ", first come, first served";
  }
  if (used <= absl::ZeroDuration()) {
    return absl::StrCat(priority, ", ", OwnerOf(entry),
                        " has not used the device lately");
  }
  return absl::StrCat(priority, ", ", OwnerOf(entry), " has used the device ",
                      RoundTime(used), " lately");
}

std::string RoundTime(absl::Duration time) {
  return absl::FormatDuration(absl::Floor(
      time, time < absl::Hours(1) ? absl::Seconds(1) : absl::Minutes(1)));
}

}  // namespace mpsd::jobs
