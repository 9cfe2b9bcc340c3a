// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/get_submission.h"

#include "absl/status/statusor.h"
#include "server/rpc/check.h"
#include "server/rpc/convert.h"

namespace mpsd::rpc {

absl::Status GetSubmission(jobs::JobReader& reader,
                           const v1::GetSubmissionRequest& request,
                           v1::SubmitRequest& response) {
  absl::Status checked = CheckId("id", request.id());
  if (!checked.ok()) return checked;
  const absl::StatusOr<jobs::SubmitRequest> submission =
      reader.RequestOf(request.id());
  if (!submission.ok()) return submission.status();
  ToProto(*submission, response);
  return absl::OkStatus();
}

}  // namespace mpsd::rpc
