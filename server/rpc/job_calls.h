// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_JOB_CALLS_H_
#define MPSD_SERVER_RPC_JOB_CALLS_H_

#include "absl/status/status.h"
#include "mpsd/v1/jobs.pb.h"
#include "server/jobs/job_manager.h"
#include "server/jobs/job_reader.h"

namespace mpsd::rpc {

// The calls of JobService that concern one job; errors as the proto states.
absl::Status Submit(jobs::JobManager& manager, jobs::JobReader& reader,
                    const v1::SubmitRequest& request, jobs::Wanted wanted,
                    v1::SubmitResponse& response);
absl::Status GetJob(jobs::JobReader& reader, const v1::GetJobRequest& request,
                    v1::Job& response);
absl::Status CancelJob(jobs::JobManager& manager, jobs::JobReader& reader,
                       const v1::CancelRequest& request, v1::Job& response);
absl::Status RetryJob(jobs::JobManager& manager, jobs::JobReader& reader,
                      const v1::RetryRequest& request, v1::Job& response);
absl::Status ListCheckpoints(jobs::JobReader& reader,
                             const v1::CheckpointsRequest& request,
                             v1::CheckpointsResponse& response);

// Fills in the answer for `job`, with its place in the queue.
void FillJob(jobs::JobReader& reader, const jobs::Job& job, v1::Job& out);

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_JOB_CALLS_H_
