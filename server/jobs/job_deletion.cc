// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/job_deletion.h"

#include "absl/strings/str_cat.h"

namespace mpsd::jobs {

absl::Status DeleteRow(JobStore& store, JobFiles& files,
                       const std::string& id) {
  absl::StatusOr<Job> job = store.Get(id);
  // A job whose row cannot be read can be deleted; the store reads the state
  // alone.
  if (!job.ok() && !absl::IsDataLoss(job.status())) return job.status();
  if (job.ok() && !IsFinal(job->state)) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", id, " is ", std::string(Name(job->state)),
                     ": cancel it (`mpsctl cancel ", id,
                     "`), and delete it once it has "
                     "ended"));
  }
  absl::Status status = files.BeginDelete(id);
  if (!status.ok()) return status;
  // The store looks at the state again, within the transaction.
  status = store.Delete(id);
  if (absl::IsResourceExhausted(status) && files.MakeRoom()) {
    status = store.Delete(id);
  }
  if (!status.ok()) files.AbandonDelete(id);
  return status;
}

}  // namespace mpsd::jobs
