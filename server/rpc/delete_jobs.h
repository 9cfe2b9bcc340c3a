// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_DELETE_JOBS_H_
#define MPSD_SERVER_RPC_DELETE_JOBS_H_

#include "absl/status/status.h"
#include "mpsd/v1/jobs.pb.h"
#include "server/jobs/job_manager.h"
#include "server/rpc/gate.h"
#include "server/rpc/unary_call.h"

namespace mpsd::rpc {

// Implements JobService.DeleteJobs. The gate checks each job as for a call of
// Delete, so that the rules, and the audit of each job's outcome, are the same.
// Ends early, with what was deleted until then, once the client is gone.
absl::Status DeleteJobs(const Gate& gate, jobs::JobManager& manager,
                        jobs::JobReader& reader,
                        const v1::DeleteJobsRequest& request, const Call& call,
                        v1::DeleteJobsResponse& response);

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_DELETE_JOBS_H_
