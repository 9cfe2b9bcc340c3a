// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/get_submission.h"

#include "core/base/status_macros.h"
#include "server/rpc/check.h"
#include "server/rpc/convert.h"

namespace mpsd::rpc {

absl::Status GetSubmission(jobs::JobReader& reader,
                           const v1::GetSubmissionRequest& request,
                           v1::SubmitRequest& response) {
  RETURN_IF_ERROR(CheckId("id", request.id()));
  ASSIGN_OR_RETURN(const jobs::SubmitRequest submission,
                   reader.RequestOf(request.id()));
  ToProto(submission, response);
  return absl::OkStatus();
}

}  // namespace mpsd::rpc
