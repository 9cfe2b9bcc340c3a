// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_JOB_MANAGER_H_
#define MPSD_SERVER_JOBS_JOB_MANAGER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/host/host.h"
#include "server/jobs/job.h"
#include "server/jobs/job_store.h"
#include "server/jobs/pause_gate.h"
#include "server/jobs/user_limits.h"

namespace mpsd::jobs {

// OK while somebody waits for the answer; otherwise the reason why nobody does.
// Cheap; called from the thread that works on the answer. Empty: somebody
// always waits.
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
  std::string owner;  // who submits; never what the request says
  UserLimits limits;  // of the owner
  // Whether the job may name files in the folder of the job with this id;
  // empty: in any job's. Called on the thread that submits.
  std::function<bool(const std::string& job_id)> may_read_job;
  // Whether the job may use the blob; where not, the blob counts as not there.
  // Empty: any blob. Called likewise.
  std::function<bool(const std::string& sha256)> may_use_blob;
  std::map<std::string, std::string> labels;
  std::string idempotency_key;  // of the owner
  // Asked before each expensive part of Submit and before the job is stored: no
  // job is made once nobody waits.
  Wanted wanted;
  bool anyway = false;  // queue a job that needs more memory than there is
  std::vector<std::string> after;  // ids of jobs that have to succeed first
  bool held = false;               // queue the job held
  // What the client says that a call takes; for the job's record alone.
  std::optional<double> round_trip_seconds;
};
struct SubmitResult {
  Job job;
  bool existed = false;
};

// Where to move a queued job.
struct MoveTo {
  enum class Where { kTop, kBottom, kPriority };
  Where where = Where::kTop;
  int32_t priority = 0;    // for kPriority
  bool among_all = false;  // kTop and kBottom among all owners' jobs
};

// The changes that the API may make to jobs; JobReader answers its questions.
// server/rpc uses these two interfaces alone. Thread-safe. Errors as in
// proto/mpsd/v1/jobs.proto. Implemented by jobs::Scheduler.
class JobManager {
 public:
  virtual ~JobManager() = default;
  virtual absl::StatusOr<SubmitResult> Submit(const SubmitRequest& request) = 0;
  // With `now` the worker is killed without a wait. Aborted where the cancel
  // cannot be stored; the worker is asked to end nonetheless.
  virtual absl::StatusOr<Job> Cancel(const std::string& id,
                                     bool now = false) = 0;
  // Queues a job that has ended, or makes a running one return to the queue; it
  // resumes from its last checkpoint. With `from_scratch` its checkpoints and
  // results go, of a running one before the next attempt. FailedPrecondition
  // for a QUEUED job, and for one that SUCCEEDED, without `from_scratch`; with
  // it for a pinned job and for one whose files a job needs that has not ended.
  // `limits`: of the one who asks, as for Submit.
  virtual absl::StatusOr<Job> Retry(const std::string& id,
                                    bool from_scratch = false,
                                    const UserLimits& limits = {}) = 0;
  // Returns the bytes freed.
  virtual absl::StatusOr<int64_t> Delete(const std::string& id) = 0;
  // Why Delete would refuse now; removes nothing.
  virtual absl::Status MayDelete(const std::string& id) = 0;
  // A pinned job is kept from Delete and from every rule.
  virtual absl::StatusOr<Job> SetPinned(const std::string& id, bool pinned) = 0;

  // The next three are FailedPrecondition for a job that is not QUEUED, and
  // Aborted where the end of its last attempt is not stored yet. Keeps the job
  // from starting; `why`, not empty, names who asked and the reason, for
  // people.
  virtual absl::StatusOr<Job> Hold(const std::string& id,
                                   const std::string& why) = 0;
  virtual absl::StatusOr<Job> Release(const std::string& id) = 0;
  // `limits`: of the one who asks. InvalidArgument for a priority beyond them.
  virtual absl::StatusOr<Job> Move(const std::string& id, const MoveTo& to,
                                   const UserLimits& limits = {}) = 0;

  // No further job starts until UndrainQueue, after a restart either, for the
  // reason `why`, for people. The running job goes on.
  virtual absl::Status DrainQueue(const std::string& why) = 0;
  virtual absl::Status UndrainQueue() = 0;
};

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
  // reason's name (pause_gate.h); empty where nothing holds them.
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

struct PlanRequest {
  // As for JobManager::Submit, but that a job which needs more memory than
  // there is gets its plan. Its functions are called on any thread, as long as
  // the plan is made.
  SubmitRequest submission;
  std::map<std::string, double> thresholds;
  // A probe that has SUCCEEDED and that the user may read, and what it found
  // (v1::ProbeResult as JSON); "": none.
  std::string probe_id, probe_json;
  // Whether the user may know how fast jobs of `owner` ran, and how much of
  // them is left. Called likewise. Empty: of everybody's.
  std::function<bool(const std::string& owner)> may_read;
};

// What comes before the job, were it submitted now.
struct PlanQueue {
  int64_t jobs_ahead = 0;
  std::optional<absl::Duration> wait;  // until the start; absent: not told
  std::vector<std::string> not_told;   // why, for people
  std::string why;  // the queue holds, for people; "": it does not
};

struct FinishedPlan {
  std::string json;  // v1::Plan, without its queue
  PlanQueue queue;
};
struct PlanNews {
  std::string stage;                 // for people: "tokenizing"
  std::optional<FinishedPlan> plan;  // with the last news
};

// Follows the making of a plan. Destroying the watch gives the plan up at once,
// without waiting for it. One thread at a time.
class PlanWatch {
 public:
  virtual ~PlanWatch() = default;
  // The next news; nullopt: nothing yet. Nothing comes after a plan. Errors
  // are those of JobManager::Submit, and
  //   DEADLINE_EXCEEDED  the plan took too long.
  //   INTERNAL           the process that plans went wrong.
  virtual absl::StatusOr<std::optional<PlanNews>> Next() = 0;
};

// Tells what a job would need and take, without queueing it. Thread-safe.
class Planner {
 public:
  virtual ~Planner() = default;
  // Begins a plan; does not block. `wake` is called (any thread, must not
  // block) whenever Next may have news, and at times when it has none.
  // UNAVAILABLE, in words, while as many plans are made as may be.
  virtual absl::StatusOr<std::unique_ptr<PlanWatch>> Plan(
      PlanRequest request, std::function<void()> wake) = 0;
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_JOB_MANAGER_H_
