// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_LIST_JOBS_H_
#define MPSD_SERVER_RPC_LIST_JOBS_H_

#include "absl/status/status.h"
#include "mpsd/v1/jobs.pb.h"
#include "server/jobs/job_reader.h"

namespace mpsd::rpc {

// Implements JobService.List. A page token is the last id of the page and a
// digest of the filter: it stays valid across restarts and is refused with
// another filter.
absl::Status ListJobs(jobs::JobReader& reader,
                      const v1::ListJobsRequest& request,
                      v1::ListJobsResponse& response);

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_LIST_JOBS_H_
