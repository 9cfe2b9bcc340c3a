// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_JOB_MANAGER_H_
#define MPSD_SERVER_JOBS_JOB_MANAGER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/jobs/job.h"
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

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_JOB_MANAGER_H_
