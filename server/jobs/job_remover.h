// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_JOB_REMOVER_H_
#define MPSD_SERVER_JOBS_JOB_REMOVER_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace mpsd::jobs {

// Removes what a rule names, as long as nobody needs it. `ended`: the end of
// the job that the rule was applied to. Both return the bytes freed;
// FailedPrecondition where the job may not go any more (KeptJobs::MayRemove),
// Aborted while somebody is about to need it. A kill in the middle leaves the
// job whole, or something that the next start removes. Thread-safe. Implemented
// by jobs::Scheduler.
class JobRemover {
 public:
  virtual ~JobRemover() = default;
  virtual absl::StatusOr<int64_t> RemoveJob(const std::string& id,
                                            absl::Time ended) = 0;
  // The job's result stays.
  virtual absl::StatusOr<int64_t> RemoveCheckpoints(const std::string& id,
                                                    absl::Time ended) = 0;
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_JOB_REMOVER_H_
