// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_JOB_QUEUE_H_
#define MPSD_SERVER_JOBS_JOB_QUEUE_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "absl/time/time.h"

namespace mpsd::jobs {

// The QUEUED jobs in the order they run: those not told to stay behind first,
// then higher priority, then the older id; a job that came back keeps its
// place. Waits are of the monotonic clock: nobody's clock can lengthen them.
// Not thread-safe.
class JobQueue {
 public:
  struct Entry {
    std::string id;
    int32_t priority = 0;
    absl::Time since;                                       // in the queue
    absl::Duration not_before = -absl::InfiniteDuration();  // monotonic
    bool behind = false;
  };

  // In the place of the one with its id, if there is one.
  void Push(Entry entry);
  // False when it was not there.
  bool Remove(const std::string& id);
  // Not before `not_before`; nothing when it is not there.
  void Delay(const std::string& id, absl::Duration not_before);

  // The first that may run at `now`; it stays in the queue.
  std::optional<Entry> Next(absl::Duration now) const;
  // When Next() has something to give; infinite when the queue is empty.
  absl::Duration NextTime() const;
  bool empty() const { return entries_.empty(); }

  // Entries before it; nullopt when it is not there. Asked for each job of a
  // list: a matter of two searches, however many there are.
  std::optional<int32_t> Position(const std::string& id) const;

 private:
  struct Before {
    bool operator()(const Entry& a, const Entry& b) const;
  };
  // What else than the id decides the place.
  struct Rank {
    int32_t priority = 0;
    bool behind = false;
  };
  // Where the entry of `id` stands; the end when it is not there.
  std::deque<Entry>::iterator Find(const std::string& id);
  std::deque<Entry>::const_iterator Find(const std::string& id) const;

  std::deque<Entry> entries_;          // sorted
  std::map<std::string, Rank> ranks_;  // by id
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_JOB_QUEUE_H_
