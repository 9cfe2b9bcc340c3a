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

// Where to move a queued job.
struct MoveTo {
  enum class Where { kTop, kBottom, kPriority };
  Where where = Where::kTop;
  int32_t priority = 0;    // for kPriority
  bool among_all = false;  // kTop and kBottom among all owners' jobs
};

// The API's changes to jobs; JobReader has its queries. server/rpc uses only
// these two interfaces. Thread-safe. Errors as in proto/mpsd/v1/jobs.proto.
// Implemented by jobs::Scheduler.
class JobManager {
 public:
  virtual ~JobManager() = default;
  virtual absl::StatusOr<SubmitResult> Submit(const SubmitRequest& request) = 0;
  // With `now` the worker is killed without a wait. Aborted if the cancel
  // cannot be stored; the worker is asked to end all the same.
  virtual absl::StatusOr<Job> Cancel(const std::string& id,
                                     bool now = false) = 0;
  // Queues a job that has ended, or makes a running one return to the queue; it
  // resumes from its last checkpoint. With `from_scratch` its checkpoints and
  // results are removed, of a running one before the next attempt.
  // FailedPrecondition for a QUEUED job, and for one that SUCCEEDED, without
  // `from_scratch`; with it for a pinned job and for one whose files an
  // unfinished job needs. `limits`: the caller's, as for Submit.
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
  // Aborted if the end of its last attempt is not stored yet. Keeps the job
  // from starting; `why`, not empty and human-readable, names the user and the
  // reason.
  virtual absl::StatusOr<Job> Hold(const std::string& id,
                                   const std::string& why) = 0;
  virtual absl::StatusOr<Job> Release(const std::string& id) = 0;
  // `limits`: the caller's. InvalidArgument for a priority beyond them.
  virtual absl::StatusOr<Job> Move(const std::string& id, const MoveTo& to,
                                   const UserLimits& limits = {}) = 0;

  // No further job starts until UndrainQueue, not even after a restart, for the
  // human-readable reason `why`. The running job continues.
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
  // Why jobs that could run do not start, human-readable and as the reason's
  // name (pause_gate.h); empty if nothing holds them.
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
  std::string why;                       // of its place, human-readable
  std::string hold;                      // as HoldOf
  std::optional<absl::Time> not_before;  // absent if it is over
  // The remaining training time, as of when the job was queued; absent if no
  // step reported it.
  std::optional<absl::Duration> time_left;
  bool waits_for_somebody = false;  // however long that takes
};
struct QueueListing {
  std::vector<QueuePlace> places;  // the running job, then the queue in order
  int64_t more = 0;                // queued jobs beyond these
  // The owners' recent use of the device, highest first; those with no use are
  // omitted.
  std::vector<OwnerUse> usage;
  absl::Duration half_life;  // zero: use does not count
};

// The API's queries about jobs; no call changes a job. Thread-safe. Errors as
// in proto/mpsd/v1/jobs.proto. Implemented by jobs::JobBoard.
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
  // FailedPrecondition if an earlier release made the job.
  virtual absl::StatusOr<SubmitRequest> RequestOf(const std::string& id) = 0;
  // The number of jobs that would run before `id`; nullopt unless `id` is
  // QUEUED.
  virtual std::optional<int32_t> QueuePosition(const std::string& id) = 0;

  // The running job and the first `limit` queued jobs.
  virtual QueueListing Queue(size_t limit) = 0;
  // The running job and the first `limit` queued jobs after which a new job of
  // the owner would be queued; `more` only counts such jobs.
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
  // Why the job does not start, or why its end is not stored; "" if nothing is
  // wrong.
  virtual std::string HoldOf(const std::string& id) = 0;

  virtual ManagerInfo Info() = 0;

  // The job's log file, its folder, and the subfolder into which a worker
  // writes the run, on this machine; "" if `id` is not a job's id.
  virtual std::string LogPath(const std::string& id) const = 0;
  virtual std::string JobFolder(const std::string& id) const = 0;
  virtual std::string RunFolder(const std::string& id) const = 0;

  // The number of QUEUED jobs of a user.
  virtual int64_t QueuedOf(const std::string& owner) = 0;
  // The sequence of the job's last event; 0 if it has none. NotFound.
  virtual absl::StatusOr<int64_t> LastSequence(const std::string& id) = 0;
};

struct PlanRequest {
  // As for JobManager::Submit, but a job which needs more memory than there is
  // gets its plan. Its functions are called on any thread, as long as the plan
  // is made.
  SubmitRequest submission;
  std::map<std::string, double> thresholds;
  // A probe that has SUCCEEDED and that the user may read, and its result
  // (v1::ProbeResult as JSON); "": none.
  std::string probe_id, probe_json;
  // Whether the user may know how fast jobs of `owner` ran, and how much of
  // them is left. Called likewise. Empty: any owner's.
  std::function<bool(const std::string& owner)> may_read;
};

// The jobs ahead of the job, if it were submitted now.
struct PlanQueue {
  int64_t jobs_ahead = 0;
  std::optional<absl::Duration> wait;  // until the start; absent: unknown
  std::vector<std::string> not_told;   // why, human-readable
  std::string why;  // the queue holds, human-readable; "": it does not
};

struct FinishedPlan {
  std::string json;  // v1::Plan, without its queue
  PlanQueue queue;
};
struct PlanNews {
  std::string stage;                 // human-readable: "tokenizing"
  std::optional<FinishedPlan> plan;  // with the last news
};

// Follows the making of a plan. Destroying the watch abandons the plan at once,
// without waiting for it. One thread at a time.
class PlanWatch {
 public:
  virtual ~PlanWatch() = default;
  // The next news; nullopt: nothing yet. Nothing comes after a plan. Errors are
  // those of JobManager::Submit, and
  //   DEADLINE_EXCEEDED  the plan took too long.
  //   INTERNAL           the planning process failed.
  virtual absl::StatusOr<std::optional<PlanNews>> Next() = 0;
};

// Estimates a job without queueing it. Thread-safe.
class Planner {
 public:
  virtual ~Planner() = default;
  // Begins a plan; does not block. `wake` is called (any thread, must not
  // block) whenever Next may have news, and at times when it has none.
  // UNAVAILABLE, with a message, while the maximum number of plans is being
  // made.
  virtual absl::StatusOr<std::unique_ptr<PlanWatch>> Plan(
      PlanRequest request, std::function<void()> wake) = 0;
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_JOB_MANAGER_H_
