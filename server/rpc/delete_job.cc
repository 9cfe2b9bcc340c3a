// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/delete_job.h"

#include <cstdint>

#include "core/base/status_macros.h"
#include "server/rpc/check.h"

namespace mpsd::rpc {

absl::Status DeleteJob(jobs::JobManager& manager,
                       const v1::DeleteRequest& request,
                       v1::DeleteResponse& response) {
  RETURN_IF_ERROR(CheckId("id", request.id()));
  ASSIGN_OR_RETURN(int64_t freed, manager.Delete(request.id()));
  response.set_freed_bytes(freed);
  return absl::OkStatus();
}

}  // namespace mpsd::rpc
