// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mpsd/v1/jobs.pb.h"
#include "server/access/rules.h"
#include "server/jobs/job_reader.h"
#include "server/rpc/records.h"
#include "server/store/job_store.h"

namespace mpsd::rpc {

// The calls of JobService that list jobs; errors as in the proto. `records`:
// null if there are none of deleted jobs.

// The filter of a request without its page: page_size and page_token. If jobs
// are private it only finds the caller's own as soon as it uses private data.
absl::StatusOr<jobs::ListFilter> ReadListFilter(
    const access::Rights& rights, const v1::ListJobsRequest& request);

// A page token is the place of the page's last job and a digest of the filter:
// it stays valid across restarts, even if that job is deleted, and is refused
// with another filter.
absl::Status ListJobs(jobs::JobReader& reader, records::JobRecords* records,
                      const access::Rights& rights,
                      const v1::ListJobsRequest& request,
                      v1::ListJobsResponse& response);

absl::Status FindJobs(jobs::JobReader& reader, records::JobRecords* records,
                      const access::Rights& rights,
                      const v1::FindJobsRequest& request,
                      v1::FindJobsResponse& response);

// Of jobs that the caller may not read it only shows the public part
// (access::Rights): neither their names nor what they wait for.
absl::Status ShowQueue(jobs::JobReader& reader, const access::Rights& rights,
                       const v1::QueueRequest& request,
                       v1::QueueResponse& response);

}  // namespace mpsd::rpc
