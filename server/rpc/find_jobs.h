// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_FIND_JOBS_H_
#define MPSD_SERVER_RPC_FIND_JOBS_H_

#include "absl/status/status.h"
#include "mpsd/v1/jobs.pb.h"
#include "server/access/rules.h"
#include "server/jobs/job_manager.h"
#include "server/rpc/job_records.h"

namespace mpsd::rpc {

// Implements JobService.FindJobs; errors as in the proto. `records`: null if
// there are none of deleted jobs.
absl::Status FindJobs(jobs::JobReader& reader, records::JobRecords* records,
                      const access::Rights& rights,
                      const v1::FindJobsRequest& request,
                      v1::FindJobsResponse& response);

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_FIND_JOBS_H_
