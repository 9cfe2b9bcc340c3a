// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_QUEUE_CALLS_H_
#define MPSD_SERVER_RPC_QUEUE_CALLS_H_

#include "absl/status/status.h"
#include "mpsd/v1/daemon.pb.h"
#include "mpsd/v1/jobs.pb.h"
#include "server/jobs/job_manager.h"
#include "server/rpc/unary_call.h"

namespace mpsd::rpc {

// The calls that change a job's place in the queue, and whether the queue runs
// at all; errors as in the proto. The gate has admitted the caller.
absl::Status HoldJob(jobs::JobManager& manager, jobs::JobReader& reader,
                     const v1::HoldRequest& request, const Call& call,
                     v1::Job& response);
absl::Status ReleaseJob(jobs::JobManager& manager, jobs::JobReader& reader,
                        const v1::ReleaseRequest& request, const Call& call,
                        v1::Job& response);
absl::Status MoveJob(jobs::JobManager& manager, jobs::JobReader& reader,
                     const v1::MoveRequest& request, const Call& call,
                     v1::Job& response);
absl::Status RetryJob(jobs::JobManager& manager, jobs::JobReader& reader,
                      const v1::RetryRequest& request, const Call& call,
                      v1::Job& response);
absl::Status DrainQueue(jobs::JobManager& manager,
                        const v1::DrainRequest& request, const Call& call);

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_QUEUE_CALLS_H_
