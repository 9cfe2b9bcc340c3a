// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/host/host.h"
#include "server/jobs/job_queue.h"
#include "server/jobs/pause_gate.h"
#include "server/jobs/user_limits.h"
#include "server/store/job.h"
#include "server/store/job_store.h"

// What the API sees of jobs: the request that makes one (SubmitRequest), news
// for waiting callers (EventHub), the queue (QueueView), queries (JobReader).
// The changes are in scheduler.h.
namespace mpsd::jobs {

class JobFiles;  // job_files.h, which knows SubmitRequest

// OK while a caller waits for the result; otherwise the reason why none does.
// Cheap; called from the thread that works on the result. Empty: always waits.
using Wanted = std::function<absl::Status()>;

inline absl::Status StillWanted(const Wanted& wanted) {
  return wanted ? wanted() : absl::OkStatus();
}

struct InputFile {
  std::string path;  // the path in job.json
  std::string sha256;
};
struct SubmitRequest {
  JobKind kind = JobKind::kTraining;
  std::string spec_json;
  std::string study_json;  // a study's options; see wire::Start
  std::vector<InputFile> inputs;
  int32_t priority = 0;
  std::string owner;  // the submitter; never what the request says
  UserLimits limits;  // of the owner
  // Whether the job may name files in the folder of the job with this id;
  // empty: in any job's. Called on the thread that submits.
  std::function<bool(const std::string& job_id)> may_read_job;
  // Whether the job may use the blob; if not, the blob counts as missing.
  // Empty: any blob. Called likewise.
  std::function<bool(const std::string& sha256)> may_use_blob;
  std::map<std::string, std::string> labels;
  std::string idempotency_key;  // of the owner
  // Called before each expensive part of Submit and before the job is stored:
  // no job is made once no caller waits.
  Wanted wanted;
  bool anyway = false;  // queue a job that needs more memory than there is
  std::vector<std::string> after;  // ids of jobs that have to succeed first
  bool held = false;               // queue the job held
  // A call's duration as the client reports it; only for the job's record.
  std::optional<double> round_trip_seconds;
};
struct SubmitResult {
  Job job;
  bool existed = false;
};

// Why a job, or every job, does not train at present.
struct Pause {
  PauseReasons reasons;             // empty: the job may train
  bool held = false;                // the running job's worker holds
  std::optional<absl::Time> since;  // when the running job was asked to hold

  bool operator==(const Pause&) const = default;
};

// A snapshot for DaemonService.Info and the metrics.
struct QueueInfo {
  std::string worker_version, torch_version, device;
  MemoryCounters memory;
  std::map<State, int64_t> jobs;
  std::string running_job_id;
  // Why jobs that could run do not start, human-readable and as the reason's
  // name (pause_gate.h); empty if nothing holds them.
  std::string hold, hold_reason;
  bool drained = false;        // by Scheduler::DrainQueue
  host::Reading host;          // the latest reading of the machine
  Pause pause;                 // the running job's, or else the queue's
  PauseReasons pause_reasons;  // why no job would train now
};

// A running or queued job, as the queue knows it.
struct QueuePlace {
  std::string id, name, owner;
  int32_t priority = 0;
  State state = State::kQueued;
  absl::Time since;                      // when the job was queued
  std::string why;                       // of its place, human-readable
  std::string hold;                      // as HoldOf
  std::optional<absl::Time> not_before;  // absent if it is over
  // The remaining training time, as of when the job was queued; absent if no
  // step reported it.
  std::optional<absl::Duration> time_left;
  bool waits_for_somebody = false;  // however long that takes
};
// When `entry` may start; nullopt if it may now, or waits for a user or a job.
std::optional<absl::Time> WallTime(const JobQueue::Entry& entry,
                                   absl::Time time, absl::Duration now);

struct QueueListing {
  std::vector<QueuePlace> places;  // the running job, then the queue in order
  int64_t more = 0;                // queued jobs beyond these
  // The owners' recent use of the device, highest first; those with no use are
  // omitted.
  std::vector<OwnerUse> usage;
  absl::Duration half_life;  // zero: use does not count
};

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

inline constexpr char kCheckHold[] = "until its data are checked";

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

  // --- Jobs whose data are to be checked before they start. A job that starts
  // or leaves the queue is not one any more.
  // Shows kCheckHold as the hold of a job that waits for nothing else.
  void AwaitCheck(const std::string& id);
  bool AwaitsCheck(const std::string& id) const {
    absl::MutexLock lock(&mutex_);
    return unchecked_.contains(id);
  }
  // Ends AwaitCheck: the job may start at once.
  void EndCheck(const std::string& id);
  // The job to check next: the owners take turns, each with its jobs in the
  // queue's order.
  std::optional<std::string> NextToCheck();

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
  void Change(const std::function<void(QueueInfo&)>& change) {
    absl::MutexLock lock(&mutex_);
    change(info_);
  }
  QueueInfo Info() const;

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
  // All in the queue.
  std::set<std::string> unchecked_ ABSL_GUARDED_BY(mutex_);
  // Whose job was checked last.
  std::string checked_owner_ ABSL_GUARDED_BY(mutex_);
  QueueInfo info_ ABSL_GUARDED_BY(mutex_);
};

// The API's queries about jobs; no call changes a job. Rows and events come
// from the store, everything else from the view that the Scheduler writes. The
// reader knows no Scheduler and takes none of its locks, so that a query is
// answered while a change waits for a disk. Thread-safe. Errors as in
// proto/mpsd/v1/jobs.proto.
class JobReader {
 public:
  // The dependencies must outlive the reader.
  JobReader(JobStore& store, const JobFiles& files,
            const base::Clock& clock = base::Clock::Real())
      : store_(store), files_(files), clock_(clock) {}

  absl::StatusOr<Job> Get(const std::string& id) { return store_.Get(id); }
  // The same as JobStore::OwnerOf.
  absl::StatusOr<std::string> OwnerOf(const std::string& id) {
    return store_.OwnerOf(id);
  }
  absl::StatusOr<std::vector<Job>> List(const ListFilter& filter) {
    return store_.List(filter);
  }
  // The same as JobStore::CountListed.
  absl::StatusOr<int64_t> CountListed(const ListFilter& filter) {
    return store_.CountListed(filter);
  }
  // The same as JobStore::FindByText.
  absl::StatusOr<std::vector<FoundJob>> FindByText(const JobText& text,
                                                   int limit) {
    return store_.FindByText(text, limit);
  }
  absl::StatusOr<std::vector<Checkpoint>> Checkpoints(const std::string& id);
  // The request that made the job, without owner, limits and idempotency key.
  // FailedPrecondition if an earlier release made the job.
  absl::StatusOr<SubmitRequest> RequestOf(const std::string& id);
  // The number of jobs that would run before `id`; nullopt unless `id` is
  // QUEUED.
  std::optional<int32_t> QueuePosition(const std::string& id) {
    return view_.Position(id);
  }

  // The time until which a QUEUED job waits, as Queue reports it: a clock that
  // was set meanwhile does not lengthen the wait. nullopt if it is over.
  std::optional<absl::Time> NotBefore(const std::string& id) {
    const std::optional<JobQueue::Entry> entry = view_.Find(id);
    if (!entry) return std::nullopt;
    return WallTime(*entry, clock_.Now(), clock_.Monotonic());
  }

  // The running job and the first `limit` queued jobs.
  QueueListing Queue(size_t limit) {
    return view_.Listing(limit, clock_.Now(), clock_.Monotonic());
  }
  // The running job and the first `limit` queued jobs after which a new job of
  // the owner would be queued; `more` only counts such jobs.
  QueueListing QueueBefore(const std::string& owner, int32_t priority,
                           size_t limit) {
    return view_.ListingBefore(owner, priority, limit, clock_.Now(),
                               clock_.Monotonic());
  }

  // At most 1,000 events of the job after sequence `after`, in order; empty
  // when the job has none yet.
  absl::StatusOr<std::vector<Event>> Events(const std::string& id,
                                            int64_t after);
  // Calls `wake` (any thread, possibly at once, must not block) whenever the
  // job may have new events or log lines; until Unsubscribe(token) returns.
  int64_t Subscribe(const std::string& id, std::function<void()> wake) {
    return hub_.Subscribe(id, std::move(wake));
  }
  void Unsubscribe(int64_t token) { hub_.Unsubscribe(token); }

  // Why a QUEUED or RUNNING job does not train.
  Pause PauseOf(const std::string& id) { return view_.PauseOf(id); }
  // Why the job does not start, or why its end is not stored; "" if nothing is
  // wrong.
  std::string HoldOf(const std::string& id) { return view_.HoldOf(id); }

  QueueInfo Info() { return view_.Info(); }

  // The job's log file, its folder, and the subfolder into which a worker
  // writes the run, on this machine; "" if `id` is not a job's id.
  std::string LogPath(const std::string& id) const;
  std::string JobFolder(const std::string& id) const;
  std::string RunFolder(const std::string& id) const;

  // The number of QUEUED jobs of a user.
  int64_t QueuedOf(const std::string& owner) { return view_.CountOf(owner); }
  // The sequence of the job's last event; 0 if it has none. NotFound.
  absl::StatusOr<int64_t> LastSequence(const std::string& id) {
    return store_.LastSequence(id);
  }

  // The view that the Scheduler writes, and whom it wakes.
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
