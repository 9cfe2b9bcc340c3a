// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_LIST_AUDIT_H_
#define MPSD_SERVER_RPC_LIST_AUDIT_H_

#include "absl/status/status.h"
#include "mpsd/v1/access.pb.h"
#include "server/access/audit_trail.h"
#include "server/access/rules.h"

namespace mpsd::rpc {

// AccessService.ListAudit; errors as in the proto. A caller who is not an admin
// sees the caller's own entries, and gets PermissionDenied if the filter names
// another user.
absl::Status ListAudit(access::AuditStore& audit, const access::Caller& caller,
                       const v1::ListAuditRequest& request,
                       v1::ListAuditResponse& response);

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_LIST_AUDIT_H_
