// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_JOB_CALLS_H_
#define MPSD_SERVER_RPC_JOB_CALLS_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mpsd/v1/jobs.pb.h"
#include "server/jobs/job_manager.h"
#include "server/jobs/user_limits.h"
#include "server/rpc/unary_call.h"

namespace mpsd::rpc {

// The calls of JobService that concern one job; errors as in the proto. The
// gate has admitted the caller.
//
// `ledger` knows who sent which blob; null if that is not counted.

// The submission of `request` by this caller, checked against its bounds, but
// without the caller's limits. `reader` and `ledger` must outlive its
// functions.
absl::StatusOr<jobs::SubmitRequest> SubmissionOf(
    jobs::JobReader& reader, jobs::UserLedger* ledger,
    const v1::SubmitRequest& request, const access::Rights& rights);
// The same with the limits of `call`, as long as its client waits. `call` must
// outlive the submission, too.
absl::Status MakeSubmission(jobs::JobReader& reader, jobs::UserLedger* ledger,
                            const v1::SubmitRequest& request, const Call& call,
                            jobs::SubmitRequest& submission);

absl::Status Submit(jobs::JobManager& manager, jobs::JobReader& reader,
                    jobs::UserLedger* ledger, const v1::SubmitRequest& request,
                    Call& call, v1::SubmitResponse& response);
absl::Status GetJob(jobs::JobReader& reader, const access::Rights& rights,
                    const v1::GetJobRequest& request, v1::Job& response);
absl::Status CancelJob(jobs::JobManager& manager, jobs::JobReader& reader,
                       const v1::CancelRequest& request, const Call& call,
                       v1::Job& response);
absl::Status PinJob(jobs::JobManager& manager, jobs::JobReader& reader,
                    const std::string& id, bool pinned, const Call& call,
                    v1::Job& response);
absl::Status ListCheckpoints(jobs::JobReader& reader,
                             const v1::CheckpointsRequest& request,
                             v1::CheckpointsResponse& response);

// Fills in the response for `job`, with its place in the queue, as far as the
// caller may see the job.
void FillJob(jobs::JobReader& reader, const access::Rights& rights,
             const jobs::Job& job, v1::Job& out);

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_JOB_CALLS_H_
