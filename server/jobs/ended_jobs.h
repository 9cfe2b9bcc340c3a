// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_ENDED_JOBS_H_
#define MPSD_SERVER_JOBS_ENDED_JOBS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/jobs/job.h"

namespace mpsd::jobs {

// One end of a job, as the job was then; a job that is tried again may end
// several times.
struct EndedJob {
  int64_t number = 0;  // grows from end to end, and is never used twice
  std::string job_id;
  State state = State::kFailed;  // a final one
  absl::Time time;
  std::string message;
};

// The ends of jobs that nobody has announced yet. An end is stored in the
// transaction that ends its job, and goes with the job when that is deleted.
// Thread-safe. Implemented by server/store.
class EndedJobs {
 public:
  virtual ~EndedJobs() = default;
  // The ends after `number`, oldest first, at most `limit`.
  virtual absl::StatusOr<std::vector<EndedJob>> After(int64_t number,
                                                      int limit) = 0;
  // Forgets an end. A power cut may bring the end back.
  virtual absl::Status Forget(int64_t number) = 0;
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_ENDED_JOBS_H_
