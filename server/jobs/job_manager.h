// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_JOB_MANAGER_H_
#define MPSD_SERVER_JOBS_JOB_MANAGER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/jobs/job.h"

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
  std::vector<InputFile> inputs;
  int32_t priority = 0;
  std::string owner;
  std::map<std::string, std::string> labels;
  std::string idempotency_key;
  // Asked before each expensive part of Submit and before the job is stored: no
  // job is made once nobody waits.
  Wanted wanted;
  bool anyway = false;  // queue a job that needs more memory than there is
};
struct SubmitResult {
  Job job;
  bool existed = false;
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
  // Queues a FAILED or CANCELLED job again, from its checkpoints;
  // FailedPrecondition for a job in another state.
  virtual absl::StatusOr<Job> Retry(const std::string& id) = 0;
  // Returns the bytes freed.
  virtual absl::StatusOr<int64_t> Delete(const std::string& id) = 0;
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_JOB_MANAGER_H_
