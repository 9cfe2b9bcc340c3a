// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_STUDY_CALLS_H_
#define MPSD_SERVER_RPC_STUDY_CALLS_H_

#include <string>

#include "absl/status/status.h"
#include "mpsd/v1/runbook.pb.h"
#include "server/jobs/job_manager.h"

namespace mpsd::rpc {

// RunbookService.GetStudyResult; errors as in the proto. The gate has admitted
// the caller.
absl::Status GetStudyResult(jobs::JobReader& reader,
                            const v1::GetStudyResultRequest& request,
                            v1::StudyResult& response);

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_STUDY_CALLS_H_
