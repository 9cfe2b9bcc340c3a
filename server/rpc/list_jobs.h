// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_LIST_JOBS_H_
#define MPSD_SERVER_RPC_LIST_JOBS_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mpsd/v1/jobs.pb.h"
#include "server/access/rules.h"
#include "server/jobs/job_manager.h"
#include "server/jobs/job_store.h"
#include "server/rpc/job_records.h"

namespace mpsd::rpc {

// The filter of a request without its page: page_size and page_token. If jobs
// are private it only finds the caller's own as soon as it uses private data.
absl::StatusOr<jobs::ListFilter> ReadListFilter(
    const access::Rights& rights, const v1::ListJobsRequest& request);

// Implements JobService.List; `records`: null if there are none of deleted
// jobs. A page token is the place of the page's last job and a digest of the
// filter: it stays valid across restarts, even if that job is deleted, and is
// refused with another filter.
absl::Status ListJobs(jobs::JobReader& reader, records::JobRecords* records,
                      const access::Rights& rights,
                      const v1::ListJobsRequest& request,
                      v1::ListJobsResponse& response);

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_LIST_JOBS_H_
