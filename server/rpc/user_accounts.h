// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_USER_ACCOUNTS_H_
#define MPSD_SERVER_RPC_USER_ACCOUNTS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "mpsd/v1/daemon.pb.h"
#include "server/access/rules.h"
#include "server/jobs/job_manager.h"
#include "server/jobs/user_limits.h"

namespace mpsd::rpc {

// The limits and the usage of the API's callers. Both pointers may be null:
// then there are no limits, or nothing is counted. Their objects must outlive
// the calls. Thread-safe.
struct UserAccounts {
  const jobs::LimitSettings* limits = nullptr;
  jobs::UserLedger* ledger = nullptr;

  // No limits for an admin.
  jobs::UserLimits LimitsOf(const access::Rights& rights) const;
  // Null if nothing is counted.
  std::unique_ptr<jobs::UploadClaim> BeginUpload(
      const access::Rights& rights) const;
  // Fills in the caller's usage and limits.
  absl::Status Describe(const access::Rights& rights, jobs::JobReader& reader,
                        v1::UserUsage& out) const;
};

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_USER_ACCOUNTS_H_
