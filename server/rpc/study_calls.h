// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_STUDY_CALLS_H_
#define MPSD_SERVER_RPC_STUDY_CALLS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "mpsd/v1/runbook.pb.h"
#include "server/jobs/job_reader.h"
#include "server/jobs/record_notes.h"

namespace mpsd::rpc {

// The calls of RunbookService that concern the result of a study; errors as the
// proto states. The gate has asked whether the caller may make them.
absl::Status GetStudyResult(jobs::JobReader& reader,
                            const v1::GetStudyResultRequest& request,
                            v1::StudyResult& response);
// `user` signs off at the time `now`; `notes` may be null. Who signs off again
// with the same reason changes nothing.
absl::Status AcceptParity(jobs::JobReader& reader, jobs::RecordNotes* notes,
                          const std::string& user, absl::Time now,
                          const v1::AcceptParityRequest& request,
                          v1::StudyResult& response);

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_STUDY_CALLS_H_
