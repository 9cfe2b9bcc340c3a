// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_JOB_DELETION_H_
#define MPSD_SERVER_JOBS_JOB_DELETION_H_

#include <string>

#include "absl/status/status.h"
#include "server/jobs/job_files.h"
#include "server/jobs/job_store.h"

namespace mpsd::jobs {

// Removes the row of a job that has ended, with its events, labels, checkpoints
// and idempotency key. The caller then calls files.FinishDelete(id); the order
// of deleted_folder.h survives a kill. One call at a time.
//   NOT_FOUND            no such job.
//   FAILED_PRECONDITION  it has not ended, or a job that has not ended names
//                        files of its folder.
absl::Status DeleteRow(JobStore& store, JobFiles& files, const std::string& id);

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_JOB_DELETION_H_
