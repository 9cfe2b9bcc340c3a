// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mpsd/v1/daemon.pb.h"
#include "mpsd/v1/jobs.pb.h"
#include "server/access/rules.h"
#include "server/jobs/job_reader.h"
#include "server/jobs/scheduler.h"
#include "server/jobs/user_limits.h"
#include "server/rpc/gate.h"
#include "server/rpc/records.h"

namespace mpsd::rpc {

// The calls of JobService about single jobs; errors as in the proto. The gate
// has admitted the caller and checked the job's owner.

// Fills in the response for `job`, with its place in the queue, as far as the
// caller may see the job.
void FillJob(jobs::JobReader& reader, const access::Rights& rights,
             const jobs::Job& job, v1::Job& out);

// The submission of `request` by this caller, checked against its bounds, but
// without the caller's limits; takes what it holds. `ledger` knows who sent
// which blob. `reader` and `ledger` must outlive its functions.
absl::StatusOr<jobs::SubmitRequest> SubmissionOf(jobs::JobReader& reader,
                                                 jobs::UserLedger* ledger,
                                                 v1::SubmitRequest& request,
                                                 const access::Rights& rights);
absl::Status Submit(jobs::Scheduler& scheduler, jobs::JobReader& reader,
                    jobs::UserLedger* ledger, v1::SubmitRequest& request,
                    Call& call, v1::SubmitResponse& response);
absl::Status GetSubmission(jobs::JobReader& reader,
                           const v1::GetSubmissionRequest& request,
                           v1::SubmitRequest& response);
absl::Status GetJob(jobs::JobReader& reader, const access::Rights& rights,
                    const v1::GetJobRequest& request, v1::Job& response);
absl::Status ListCheckpoints(jobs::JobReader& reader,
                             const v1::CheckpointsRequest& request,
                             v1::CheckpointsResponse& response);

// Changes of a job; they fill in the job as it then is.
absl::Status CancelJob(jobs::Scheduler& scheduler, jobs::JobReader& reader,
                       const v1::CancelRequest& request, const Call& call,
                       v1::Job& response);
absl::Status RetryJob(jobs::Scheduler& scheduler, jobs::JobReader& reader,
                      const v1::RetryRequest& request, const Call& call,
                      v1::Job& response);
absl::Status PinJob(jobs::Scheduler& scheduler, jobs::JobReader& reader,
                    const std::string& id, bool pinned, const Call& call,
                    v1::Job& response);
absl::Status HoldJob(jobs::Scheduler& scheduler, jobs::JobReader& reader,
                     const v1::HoldRequest& request, const Call& call,
                     v1::Job& response);
absl::Status ReleaseJob(jobs::Scheduler& scheduler, jobs::JobReader& reader,
                        const v1::ReleaseRequest& request, const Call& call,
                        v1::Job& response);
absl::Status MoveJob(jobs::Scheduler& scheduler, jobs::JobReader& reader,
                     const v1::MoveRequest& request, const Call& call,
                     v1::Job& response);
// DaemonService.Drain: whether the queue runs at all.
absl::Status DrainQueue(jobs::Scheduler& scheduler,
                        const v1::DrainRequest& request, const Call& call);

absl::Status DeleteJob(jobs::Scheduler& scheduler, jobs::JobReader& reader,
                       const v1::DeleteRequest& request,
                       v1::DeleteResponse& response);
// The gate checks each job as for a call of Delete, so that the rules, and the
// audit of each job's outcome, are the same. Ends early, with what was deleted
// until then, once the client is gone.

// The record of a job, deleted or not. For each call, a record that the caller
// may not read does not exist.
absl::Status GetRecord(records::JobRecords& records, jobs::JobReader& reader,
                       const access::Rights& rights,
                       const v1::GetRecordRequest& request,
                       v1::GetRecordResponse& response);
absl::Status AddNote(records::JobRecords& records, jobs::JobReader& reader,
                     const access::Rights& rights,
                     const v1::AddNoteRequest& request,
                     v1::GetRecordResponse& response);
absl::Status TagJob(records::JobRecords& records, jobs::JobReader& reader,
                    const access::Rights& rights, const v1::TagRequest& request,
                    v1::GetRecordResponse& response);

}  // namespace mpsd::rpc
