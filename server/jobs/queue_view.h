// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_QUEUE_VIEW_H_
#define MPSD_SERVER_JOBS_QUEUE_VIEW_H_

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/jobs/hold.h"
#include "server/jobs/job_queue.h"
#include "server/jobs/job_reader.h"

namespace mpsd::jobs {

// The queue, and everything that the API tells without the store. The view's
// lock is held for no I/O and while no other lock is taken, so that Info, Get
// and List are answered while a disk hangs. Thread-safe.
class QueueView {
 public:
  void Push(JobQueue::Entry entry) {
    absl::MutexLock lock(&mutex_);
    queue_.Push(std::move(entry));
  }
  // Forgets the job's own hold, too.
  bool Remove(const std::string& id);
  // Holds this job alone until `not_before` (monotonic), because of `why`.
  void HoldJob(const std::string& id, const std::string& why,
               absl::Duration not_before);
  std::optional<JobQueue::Entry> Next(absl::Duration now) const {
    absl::MutexLock lock(&mutex_);
    return queue_.Next(now);
  }
  absl::Duration NextTime() const {
    absl::MutexLock lock(&mutex_);
    return queue_.NextTime();
  }
  std::optional<int32_t> Position(const std::string& id) const {
    absl::MutexLock lock(&mutex_);
    return queue_.Position(id);
  }
  bool empty() const {
    absl::MutexLock lock(&mutex_);
    return queue_.empty();
  }
  QueueDepth Depth() const {
    absl::MutexLock lock(&mutex_);
    return queue_.Depth();
  }

  // Holds the whole queue because of `why`; an empty `why` ends the reason.
  // Returns whether anything changed.
  bool SetQueueHold(HoldReason reason, const std::string& why);
  Holds holds() const {
    absl::MutexLock lock(&mutex_);
    return holds_;
  }
  // Why a job does not start, or why its end is not stored: the job's own hold,
  // or else the queue's gravest one. "" where neither exists.
  std::string HoldOf(const std::string& id) const;

  // `id`: the job that trains, "" for none. `pause`: the pause of that job, or
  // else of the queue.
  void SetRunning(const std::string& id, const Pause& pause);
  Pause PauseOf(const std::string& id) const;

  // Changes the parts of Info that the calls above do not set.
  void Change(const std::function<void(ManagerInfo&)>& change) {
    absl::MutexLock lock(&mutex_);
    change(info_);
  }
  ManagerInfo Info() const;

 private:
  std::string Gravest() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  JobQueue queue_ ABSL_GUARDED_BY(mutex_);
  Holds holds_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::string> job_holds_ ABSL_GUARDED_BY(mutex_);
  ManagerInfo info_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_QUEUE_VIEW_H_
