// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_REQUEST_FILE_H_
#define MPSD_SERVER_JOBS_REQUEST_FILE_H_

#include <filesystem>
#include <string>

#include "absl/status/statusor.h"
#include "server/jobs/job_manager.h"

namespace mpsd::jobs {

// The request that made a job, as JSON in the job's folder, so that a job like
// it can be made. Without what belongs to the caller and to this one call: the
// owner, the limits, the idempotency key.
class RequestFile {
 public:
  // The name of the file in the job's folder.
  static constexpr char kFile[] = "request.json";

  static std::string Encode(const SubmitRequest& request);

  // FailedPrecondition where `folder`, a job's, has no such file: an earlier
  // release made the job. DataLoss where the file makes no sense.
  static absl::StatusOr<SubmitRequest> Read(
      const std::filesystem::path& folder);
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_REQUEST_FILE_H_
