// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_RECORD_CALLS_H_
#define MPSD_SERVER_RPC_RECORD_CALLS_H_

#include "absl/status/status.h"
#include "mpsd/v1/jobs.pb.h"
#include "server/access/rules.h"
#include "server/jobs/job_manager.h"
#include "server/rpc/job_records.h"

namespace mpsd::rpc {

// The calls of JobService about the record of a job, deleted or not; errors as
// in the proto. For each call, a record that the caller may not read does not
// exist.
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

#endif  // MPSD_SERVER_RPC_RECORD_CALLS_H_
