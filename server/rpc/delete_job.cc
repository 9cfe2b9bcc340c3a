// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/delete_job.h"

#include <cstdint>

#include "absl/status/statusor.h"
#include "server/rpc/check.h"

namespace mpsd::rpc {

absl::Status DeleteJob(jobs::JobManager& manager,
                       const v1::DeleteRequest& request,
                       v1::DeleteResponse& response) {
  absl::Status checked = CheckId("id", request.id());
  if (!checked.ok()) return checked;
  absl::StatusOr<int64_t> freed = manager.Delete(request.id());
  if (!freed.ok()) return freed.status();
  response.set_freed_bytes(*freed);
  return absl::OkStatus();
}

}  // namespace mpsd::rpc
