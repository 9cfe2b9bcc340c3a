// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_STORE_OWNER_USE_H_
#define MPSD_SERVER_STORE_OWNER_USE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/jobs/job_store.h"
#include "server/store/connection.h"

namespace mpsd::store {

// What jobs::JobStore keeps of each owner's use of the device. PutUse is a part
// of the caller's transaction and throws as Connection does; the others lock
// the connection.
void PutUse(Connection& connection, const jobs::OwnerUse& use)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(connection.mutex());
absl::StatusOr<std::vector<jobs::OwnerUse>> ReadUses(Connection& connection);
absl::Status RemoveUses(Connection& connection,
                        absl::Span<const std::string> owners);

}  // namespace mpsd::store

#endif  // MPSD_SERVER_STORE_OWNER_USE_H_
