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

// Whether somebody waits for an answer: OK, or why nobody does any more. Cheap;
// asked from the thread that works on the answer. Empty: always.
using Wanted = std::function<absl::Status()>;

inline absl::Status StillWanted(const Wanted& wanted) {
  return wanted ? wanted() : absl::OkStatus();
}

struct InputFile {
  std::string path;  // as job.json spells it
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
  // Asked before each of Submit's expensive parts and before the job is
  // stored: once nobody waits, no job is made.
  Wanted wanted;
  bool anyway = false;  // queue it though the machine is too small for it
};
struct SubmitResult {
  Job job;
  bool existed = false;
};

// What the API may change about jobs; what it may ask is JobReader. These two
// are the only doors from server/rpc. Thread-safe. Errors as in
// proto/mpsd/v1/jobs.proto. Implemented by jobs::Scheduler.
class JobManager {
 public:
  virtual ~JobManager() = default;
  virtual absl::StatusOr<SubmitResult> Submit(const SubmitRequest& request) = 0;
  // `now`: kills its worker without waiting for it. Aborted where the
  // wish cannot be stored; the worker was asked nonetheless.
  virtual absl::StatusOr<Job> Cancel(const std::string& id,
                                     bool now = false) = 0;
  // A FAILED or CANCELLED job once more, from its checkpoints; of another state
  // FailedPrecondition.
  virtual absl::StatusOr<Job> Retry(const std::string& id) = 0;
  // Returns the bytes given back.
  virtual absl::StatusOr<int64_t> Delete(const std::string& id) = 0;
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_JOB_MANAGER_H_
