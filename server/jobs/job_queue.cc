// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/job_queue.h"

#include <algorithm>
#include <utility>

namespace mpsd::jobs {

bool JobQueue::Before::operator()(const Entry& a, const Entry& b) const {
  if (a.priority != b.priority) return a.priority > b.priority;
  return a.id < b.id;
}

void JobQueue::Push(Entry entry) { entries_.insert(std::move(entry)); }

bool JobQueue::Remove(const std::string& id) {
  return std::erase_if(entries_, [&](const Entry& e) { return e.id == id; });
}

std::optional<JobQueue::Entry> JobQueue::Next(absl::Time now) const {
  for (const Entry& entry : entries_) {
    if (entry.not_before <= now) return entry;
  }
  return std::nullopt;
}

absl::Time JobQueue::NextTime() const {
  absl::Time time = absl::InfiniteFuture();
  for (const Entry& entry : entries_) time = std::min(time, entry.not_before);
  return time;
}

std::optional<int32_t> JobQueue::Position(const std::string& id) const {
  int32_t position = 0;
  for (const Entry& entry : entries_) {
    if (entry.id == id) return position;
    ++position;
  }
  return std::nullopt;
}

}  // namespace mpsd::jobs
