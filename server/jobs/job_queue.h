// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_JOB_QUEUE_H_
#define MPSD_SERVER_JOBS_JOB_QUEUE_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "absl/time/time.h"

namespace mpsd::jobs {

// The QUEUED jobs in the order they run: higher priority first, older id first
// among equals; a job that came back keeps its place. Not thread-safe.
class JobQueue {
 public:
  struct Entry {
    std::string id;
    int32_t priority = 0;
    absl::Time since;  // in the queue
    absl::Time not_before = absl::InfinitePast();
  };

  void Push(Entry entry);
  // False when it was not there.
  bool Remove(const std::string& id);

  // The first that may run at `now`; it stays in the queue.
  std::optional<Entry> Next(absl::Time now) const;
  // When Next() has something to give; InfiniteFuture when the queue is empty.
  absl::Time NextTime() const;

  // Entries before it; nullopt when it is not there.
  std::optional<int32_t> Position(const std::string& id) const;

 private:
  struct Before {
    bool operator()(const Entry& a, const Entry& b) const;
  };
  std::set<Entry, Before> entries_;
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_JOB_QUEUE_H_
