// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_GET_SUBMISSION_H_
#define MPSD_SERVER_RPC_GET_SUBMISSION_H_

#include "absl/status/status.h"
#include "mpsd/v1/jobs.pb.h"
#include "server/jobs/job_manager.h"

namespace mpsd::rpc {

// Implements JobService.GetSubmission; errors as in the proto. The gate has
// checked that the caller may read the job.
absl::Status GetSubmission(jobs::JobReader& reader,
                           const v1::GetSubmissionRequest& request,
                           v1::SubmitRequest& response);

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_GET_SUBMISSION_H_
