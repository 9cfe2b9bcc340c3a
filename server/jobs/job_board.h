// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_JOB_BOARD_H_
#define MPSD_SERVER_JOBS_JOB_BOARD_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "server/jobs/job_files.h"
#include "server/jobs/job_manager.h"
#include "server/jobs/job_queue.h"
#include "server/jobs/job_store.h"
#include "server/jobs/pause_gate.h"

namespace mpsd::jobs {

// Knows which callers wait for news of which job. Thread-safe. Wake functions
// run under the hub's lock, so that none runs once Unsubscribe has returned.
// Hence a wake function must not block, nor call the hub; and Unsubscribe must
// not be called with a lock held that the wake function takes.
class EventHub {
 public:
  int64_t Subscribe(const std::string& job_id, std::function<void()> wake);
  void Unsubscribe(int64_t token);
  void Wake(const std::string& job_id);

 private:
  struct Subscriber {
    std::string job_id;
    std::function<void()> wake;
  };
  absl::Mutex mutex_;
  int64_t last_token_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<int64_t, Subscriber> subscribers_ ABSL_GUARDED_BY(mutex_);
};

// The queue, and everything that the API reports without the store. The view's
// lock is held for no I/O and while no other lock is taken, so that Info, Get
// and List are answered while a disk hangs. Thread-safe.
class QueueView {
 public:
  // Replaces the job's entry and hold, if any. With `hold` the job waits until
  // it is pushed again, for that reason.
  void Push(JobQueue::Entry entry, const std::string& hold = "");
  // Also removes the job's own hold.
  bool Remove(const std::string& id);
  // Holds only this job until `not_before` (monotonic), because of `why`.
  void HoldJob(const std::string& id, const std::string& why,
               absl::Duration not_before);
  // Ends HoldJob: the job may start at once, and counts as queued since then.
  void Unhold(const std::string& id, absl::Time since);
  std::optional<JobQueue::Entry> Next(absl::Duration now) const {
    absl::MutexLock lock(&mutex_);
    return queue_.Next(now);
  }
  absl::Duration NextTime() const {
    absl::MutexLock lock(&mutex_);
    return queue_.NextTime();
  }
  absl::Duration NextTimeAbove(int32_t priority) const {
    absl::MutexLock lock(&mutex_);
    return queue_.NextTimeAbove(priority);
  }
  std::optional<JobQueue::Entry> Find(const std::string& id) const {
    absl::MutexLock lock(&mutex_);
    return queue_.Find(id);
  }
  int64_t PlaceAt(JobQueue::Edge edge, const std::string& id,
                  bool among_all) const {
    absl::MutexLock lock(&mutex_);
    return queue_.PlaceAt(edge, id, among_all);
  }
  int64_t LastPlace(const std::string& owner, int32_t priority) const {
    absl::MutexLock lock(&mutex_);
    return queue_.LastPlace(owner, priority);
  }
  std::optional<JobQueue::Heir> TakeTurn(const std::string& id) {
    absl::MutexLock lock(&mutex_);
    return queue_.TakeTurn(id);
  }
  std::optional<int32_t> Position(const std::string& id) const {
    absl::MutexLock lock(&mutex_);
    return queue_.Position(id);
  }
  bool empty() const {
    absl::MutexLock lock(&mutex_);
    return queue_.empty();
  }
  int64_t CountOf(const std::string& owner) const {
    absl::MutexLock lock(&mutex_);
    return queue_.CountOf(owner);
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
  // or else the queue's most severe one. "" if there is neither.
  std::string HoldOf(const std::string& id) const;

  // The entry leaves the queue, because its job trains from now on.
  void Start(const std::string& id);
  // `id`: the job that trains, "" for none. `pause`: the pause of that job, or
  // else of the queue.
  void SetRunning(const std::string& id, const Pause& pause);
  // The entry of the job that trains, as it was when the job left the queue.
  std::optional<JobQueue::Entry> running() const {
    absl::MutexLock lock(&mutex_);
    return running_;
  }

  // --- Owners' use of the device. With a half-life of zero it does not count
  // and the queue is FIFO within priority.
  // Call it before anything is charged.
  void SetHalfLife(absl::Duration half_life);
  // Adds `used` to the owner's use until `now` (monotonic), and moves the
  // owner's jobs accordingly. Returns the owner's use, as of `time`, the wall
  // clock's time at `now`; nullopt if use does not count.
  std::optional<OwnerUse> Charge(const std::string& owner, absl::Duration used,
                                 absl::Duration now, absl::Time time);
  // Restores the use that an earlier daemon stored, by its age.
  void Restore(const OwnerUse& use, absl::Duration now, absl::Time time);
  // Forgets owners whose use has faded to nothing; returns them.
  std::vector<std::string> ForgetUses(absl::Duration now);

  // `now`: monotonic, at the moment of `time`.
  QueueListing Listing(size_t limit, absl::Time time, absl::Duration now) const;
  // The same for the jobs before which a new job of the owner would not run.
  QueueListing ListingBefore(const std::string& owner, int32_t priority,
                             size_t limit, absl::Time time, absl::Duration now);
  Pause PauseOf(const std::string& id) const;

  // Changes the parts of Info that the calls above do not set.
  void Change(const std::function<void(ManagerInfo&)>& change) {
    absl::MutexLock lock(&mutex_);
    change(info_);
  }
  ManagerInfo Info() const;

 private:
  // The running job, and `queued`.
  QueueListing List(const std::vector<JobQueue::Entry>& queued, absl::Time time,
                    absl::Duration now) const
      ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  std::string Gravest() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  std::string HoldOfLocked(const std::string& id) const
      ABSL_SHARED_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  JobQueue queue_ ABSL_GUARDED_BY(mutex_);
  UsageBook book_ ABSL_GUARDED_BY(mutex_);
  std::optional<JobQueue::Entry> running_ ABSL_GUARDED_BY(mutex_);
  Holds holds_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::string> job_holds_ ABSL_GUARDED_BY(mutex_);
  ManagerInfo info_ ABSL_GUARDED_BY(mutex_);
};

// The API's read access to the queue. Rows and events come from the store,
// everything else from the view that the Scheduler writes. The board knows no
// Scheduler and takes none of its locks, so that a query is answered while a
// change waits for a disk. Thread-safe. The dependencies must outlive the
// board.
class JobBoard final : public JobReader {
 public:
  JobBoard(JobStore& store, const JobFiles& files,
           const base::Clock& clock = base::Clock::Real())
      : store_(store), files_(files), clock_(clock) {}

  absl::StatusOr<Job> Get(const std::string& id) override {
    return store_.Get(id);
  }
  absl::StatusOr<std::string> OwnerOf(const std::string& id) override {
    return store_.OwnerOf(id);
  }
  absl::StatusOr<std::vector<Job>> List(const ListFilter& filter) override {
    return store_.List(filter);
  }
  absl::StatusOr<int64_t> CountListed(const ListFilter& filter) override {
    return store_.CountListed(filter);
  }
  absl::StatusOr<std::vector<FoundJob>> FindByIdPart(const std::string& part,
                                                     int limit) override {
    return store_.FindByIdPart(part, limit);
  }
  absl::StatusOr<std::vector<Checkpoint>> Checkpoints(
      const std::string& id) override;
  absl::StatusOr<SubmitRequest> RequestOf(const std::string& id) override;
  std::optional<int32_t> QueuePosition(const std::string& id) override {
    return view_.Position(id);
  }
  QueueListing Queue(size_t limit) override {
    return view_.Listing(limit, clock_.Now(), clock_.Monotonic());
  }
  QueueListing QueueBefore(const std::string& owner, int32_t priority,
                           size_t limit) override {
    return view_.ListingBefore(owner, priority, limit, clock_.Now(),
                               clock_.Monotonic());
  }
  int64_t QueuedOf(const std::string& owner) override {
    return view_.CountOf(owner);
  }
  absl::StatusOr<std::vector<Event>> Events(const std::string& id,
                                            int64_t after) override;
  absl::StatusOr<int64_t> LastSequence(const std::string& id) override {
    return store_.LastSequence(id);
  }
  int64_t Subscribe(const std::string& id,
                    std::function<void()> wake) override {
    return hub_.Subscribe(id, std::move(wake));
  }
  void Unsubscribe(int64_t token) override { hub_.Unsubscribe(token); }
  Pause PauseOf(const std::string& id) override { return view_.PauseOf(id); }
  std::string HoldOf(const std::string& id) override {
    return view_.HoldOf(id);
  }
  ManagerInfo Info() override { return view_.Info(); }
  std::string LogPath(const std::string& id) const override;
  std::string JobFolder(const std::string& id) const override;
  std::string RunFolder(const std::string& id) const override;

  // The view that the Scheduler writes.
  QueueView& view() { return view_; }
  EventHub& hub() { return hub_; }

 private:
  JobStore& store_;
  const JobFiles& files_;
  const base::Clock& clock_;
  QueueView view_;
  EventHub hub_;
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_JOB_BOARD_H_
