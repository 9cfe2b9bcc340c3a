// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_DELETE_JOB_H_
#define MPSD_SERVER_RPC_DELETE_JOB_H_

#include "absl/status/status.h"
#include "mpsd/v1/jobs.pb.h"
#include "server/jobs/job_manager.h"

namespace mpsd::rpc {

// Implements JobService.Delete; errors as in the proto.
absl::Status DeleteJob(jobs::JobManager& manager,
                       const v1::DeleteRequest& request,
                       v1::DeleteResponse& response);

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_DELETE_JOB_H_
