// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/verdict.h"

#include "absl/strings/str_cat.h"
#include "server/jobs/start_check.h"

namespace mpsd::jobs {

Verdict JudgeEnd(const WorkerListener::Result& result, const Job& job,
                 int64_t min_free_bytes, JobFiles& files) {
  Verdict verdict{result, "", ""};
  const ExitReason reason = result.reason;
  if (reason != ExitReason::kMachine && reason != ExitReason::kCrashed &&
      reason != ExitReason::kRejected) {
    return verdict;
  }
  verdict.job_lacks = MissingPath(job, SpecOf(job), files);
  // A full disk rejects no job, so a Rejected keeps the worker's words.
  if (reason != ExitReason::kRejected) {
    verdict.disk_lacks = FullDisk(min_free_bytes, files);
  }
  const std::string& lacks =
      verdict.job_lacks.empty() ? verdict.disk_lacks : verdict.job_lacks;
  if (!lacks.empty()) {
    verdict.result.reason = ExitReason::kMachine;
    verdict.result.message = absl::StrCat(lacks, "; ", result.message);
  }
  return verdict;
}

WorkerListener::Result Interruption(const Job& job,
                                    const std::string& boot_id) {
  WorkerListener::Result result;
  result.reason = ExitReason::kInterrupted;
  result.message = "mpsd or the machine went down while the job ran";
  if (!job.boot_id.empty() && !boot_id.empty()) {
    result.message = job.boot_id == boot_id
                         ? "mpsd ended while the job ran"
                         : "the machine went down while the job ran";
  }
  return result;
}

}  // namespace mpsd::jobs
