// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_JOB_QUEUE_H_
#define MPSD_SERVER_JOBS_JOB_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "absl/time/time.h"

namespace mpsd::jobs {

// How many jobs wait, and for how long.
struct QueueDepth {
  std::map<int32_t, int64_t> by_priority;
  std::map<std::string, int64_t> by_owner;
  // When the job that has waited longest was queued; absent where none waits.
  std::optional<absl::Time> oldest;
  // The time that all of them take, zero where none waits; absent where the
  // time of one is not known.
  std::optional<absl::Duration> time_left = absl::ZeroDuration();
};

// The QUEUED jobs in the order in which they run: jobs without `behind` first,
// then higher priority, then the older id; a job that came back keeps its
// place. Waits use the monotonic clock, so that no change of the wall clock
// lengthens them. Not thread-safe.
class JobQueue {
 public:
  struct Entry {
    std::string id;
    int32_t priority = 0;
    absl::Time since;  // when the job was queued
    absl::Duration not_before = -absl::InfiniteDuration();  // monotonic
    bool behind = false;
    std::string owner = "";
    std::optional<absl::Duration> time_left = {};  // TimeLeft()
  };

  // Replaces the entry with the same id, if there is one.
  void Push(Entry entry);
  // False when the queue has no such entry.
  bool Remove(const std::string& id);
  // Sets the entry's not_before; does nothing when the queue has no such entry.
  void Delay(const std::string& id, absl::Duration not_before);

  // The first entry that may run at `now`; the entry stays in the queue.
  std::optional<Entry> Next(absl::Duration now) const;
  // The time from which Next() returns an entry; infinite when the queue is
  // empty.
  absl::Duration NextTime() const;
  bool empty() const { return entries_.empty(); }
  // Copies a count for each priority and owner, whatever the queue's length.
  QueueDepth Depth() const;

  // The number of entries before `id`; nullopt when the queue has no such
  // entry. A list asks this of each of its jobs, so the cost is two binary
  // searches whatever the queue's length.
  std::optional<int32_t> Position(const std::string& id) const;

 private:
  struct Before {
    bool operator()(const Entry& a, const Entry& b) const;
  };
  // The values that decide the place before the id does.
  struct Rank {
    int32_t priority = 0;
    bool behind = false;
  };
  // The entry of `id`; the end when the queue has no such entry.
  std::deque<Entry>::iterator Find(const std::string& id);
  std::deque<Entry>::const_iterator Find(const std::string& id) const;

  std::deque<Entry> entries_;          // sorted
  std::map<std::string, Rank> ranks_;  // by id
  QueueDepth depth_;                   // but for `oldest` and `time_left`
  absl::Duration time_left_;           // of the entries that tell theirs
  size_t untold_ = 0;                  // entries that do not
  std::multiset<absl::Time> times_;    // of all entries, when they were queued
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_JOB_QUEUE_H_
