// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/job_queue.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"

namespace mpsd::jobs {
namespace {

void CountDown(auto& counts, const auto& key) {
  const auto count = counts.find(key);
  base::Check(count != counts.end(), "an entry is counted");
  if (--count->second == 0) counts.erase(count);
}

}  // namespace

bool JobQueue::Before::operator()(const Entry& a, const Entry& b) const {
  if (a.behind != b.behind) return b.behind;
  if (a.priority != b.priority) return a.priority > b.priority;
  return a.id < b.id;
}

std::deque<JobQueue::Entry>::const_iterator JobQueue::Find(
    const std::string& id) const {
  const auto rank = ranks_.find(id);
  if (rank == ranks_.end()) return entries_.end();
  Entry key;
  key.id = id;
  key.priority = rank->second.priority;
  key.behind = rank->second.behind;
  const auto found =
      std::lower_bound(entries_.begin(), entries_.end(), key, Before());
  base::Check(found != entries_.end() && found->id == id,
              "an entry stands where its rank says");
  return found;
}

std::deque<JobQueue::Entry>::iterator JobQueue::Find(const std::string& id) {
  return entries_.begin() + (std::as_const(*this).Find(id) - entries_.cbegin());
}

void JobQueue::Push(Entry entry) {
  Remove(entry.id);
  ranks_[entry.id] = {entry.priority, entry.behind};
  ++depth_.by_priority[entry.priority];
  ++depth_.by_owner[entry.owner];
  times_.insert(entry.since);
  time_left_ += entry.time_left.value_or(absl::ZeroDuration());
  if (!entry.time_left) ++untold_;
  entries_.insert(
      std::lower_bound(entries_.begin(), entries_.end(), entry, Before()),
      std::move(entry));
  base::CheckEqual(ranks_.size(), entries_.size(), "ranks and entries");
}

bool JobQueue::Remove(const std::string& id) {
  const auto found = Find(id);
  if (found == entries_.end()) return false;
  ranks_.erase(id);
  CountDown(depth_.by_priority, found->priority);
  CountDown(depth_.by_owner, found->owner);
  times_.erase(times_.find(found->since));
  time_left_ -= found->time_left.value_or(absl::ZeroDuration());
  if (!found->time_left) --untold_;
  entries_.erase(found);
  return true;
}

void JobQueue::Delay(const std::string& id, absl::Duration not_before) {
  const auto found = Find(id);
  if (found != entries_.end()) found->not_before = not_before;
}

std::optional<JobQueue::Entry> JobQueue::Next(absl::Duration now) const {
  for (const Entry& entry : entries_) {
    if (entry.not_before <= now) return entry;
  }
  return std::nullopt;
}

absl::Duration JobQueue::NextTime() const {
  absl::Duration time = absl::InfiniteDuration();
  for (const Entry& entry : entries_) time = std::min(time, entry.not_before);
  return time;
}

QueueDepth JobQueue::Depth() const {
  QueueDepth depth = depth_;
  if (!times_.empty()) depth.oldest = *times_.begin();
  depth.time_left.reset();
  if (untold_ == 0) depth.time_left = time_left_;
  return depth;
}

std::optional<int32_t> JobQueue::Position(const std::string& id) const {
  const auto found = Find(id);
  if (found == entries_.end()) return std::nullopt;
  return static_cast<int32_t>(found - entries_.begin());
}

}  // namespace mpsd::jobs
