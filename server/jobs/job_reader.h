// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_JOB_READER_H_
#define MPSD_SERVER_JOBS_JOB_READER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/host/host.h"
#include "server/jobs/job.h"
#include "server/jobs/job_manager.h"
#include "server/jobs/job_store.h"
#include "server/jobs/pause_gate.h"

namespace mpsd::jobs {

// Why a job, or every job, does not train at present.
struct Pause {
  PauseReasons reasons;             // empty: the job may train
  bool held = false;                // the running job's worker holds
  std::optional<absl::Time> since;  // when the running job was asked to hold

  bool operator==(const Pause&) const = default;
};

// A snapshot for DaemonService.Info and the metrics.
struct ManagerInfo {
  std::string worker_version, torch_version, device;
  MemoryCounters memory;
  std::map<State, int64_t> jobs;
  std::string running_job_id;
  // Why jobs that could run do not start, as a text for people and as the
  // reason's name (hold.h); empty where nothing holds them.
  std::string hold, hold_reason;
  bool drained = false;        // by JobManager::DrainQueue
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
  std::string why;                       // it stands there, for people
  std::string hold;                      // as HoldOf
  std::optional<absl::Time> not_before;  // absent where it is over
  // The training that is left, as of when the job was queued; absent where no
  // step tells.
  std::optional<absl::Duration> time_left;
  bool waits_for_somebody = false;  // however long that takes
};
struct QueueListing {
  std::vector<QueuePlace> places;  // the running job, then the queue in order
  int64_t more = 0;                // queued jobs beyond these
  // What the owners of these jobs used of the device lately, most used first;
  // those who used nothing are left out.
  std::vector<OwnerUse> usage;
  absl::Duration half_life;  // zero: what was used does not count
};

// The questions that the API may ask about jobs; no call changes a job.
// Thread-safe. Errors as in proto/mpsd/v1/jobs.proto. Implemented by
// jobs::JobBoard.
class JobReader {
 public:
  virtual ~JobReader() = default;
  virtual absl::StatusOr<Job> Get(const std::string& id) = 0;
  // The same as JobStore::OwnerOf.
  virtual absl::StatusOr<std::string> OwnerOf(const std::string& id) = 0;
  virtual absl::StatusOr<std::vector<Job>> List(const ListFilter& filter) = 0;
  // The same as JobStore::CountListed.
  virtual absl::StatusOr<int64_t> CountListed(const ListFilter& filter) = 0;
  // The same as JobStore::FindByIdPart.
  virtual absl::StatusOr<std::vector<FoundJob>> FindByIdPart(
      const std::string& part, int limit) = 0;
  virtual absl::StatusOr<std::vector<Checkpoint>> Checkpoints(
      const std::string& id) = 0;
  // The request that made the job, without owner, limits and idempotency key.
  // FailedPrecondition where an earlier release made the job.
  virtual absl::StatusOr<SubmitRequest> RequestOf(const std::string& id) = 0;
  // The number of jobs that would run before `id`; nullopt unless `id` is
  // QUEUED.
  virtual std::optional<int32_t> QueuePosition(const std::string& id) = 0;

  // The running job and the first `limit` queued jobs.
  virtual QueueListing Queue(size_t limit) = 0;
  // The running job and the first `limit` queued jobs behind which a new job of
  // the owner would stand; `more` counts such jobs alone.
  virtual QueueListing QueueBefore(const std::string& owner, int32_t priority,
                                   size_t limit) = 0;

  // At most 1,000 events of the job after sequence `after`, in order; empty
  // when the job has none yet.
  virtual absl::StatusOr<std::vector<Event>> Events(const std::string& id,
                                                    int64_t after) = 0;
  // Calls `wake` (any thread, possibly at once, must not block) whenever the
  // job may have new events or log lines; until Unsubscribe(token) returns.
  virtual int64_t Subscribe(const std::string& id,
                            std::function<void()> wake) = 0;
  virtual void Unsubscribe(int64_t token) = 0;

  // Why a QUEUED or RUNNING job does not train.
  virtual Pause PauseOf(const std::string& id) = 0;
  // Why the job does not start, or why its end is not stored; "" where nothing
  // is wrong.
  virtual std::string HoldOf(const std::string& id) = 0;

  virtual ManagerInfo Info() = 0;

  // The job's log file, its folder, and the folder in that into which a worker
  // writes the run, on this machine; "" where `id` is no job's id.
  virtual std::string LogPath(const std::string& id) const = 0;
  virtual std::string JobFolder(const std::string& id) const = 0;
  virtual std::string RunFolder(const std::string& id) const = 0;

  // The number of QUEUED jobs of a user.
  virtual int64_t QueuedOf(const std::string& owner) = 0;
  // The sequence of the job's last event; 0 where it has none. NotFound.
  virtual absl::StatusOr<int64_t> LastSequence(const std::string& id) = 0;
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_JOB_READER_H_
