// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/user_accounts.h"

#include <string>

#include "core/base/status_macros.h"

namespace mpsd::rpc {

jobs::UserLimits UserAccounts::LimitsOf(const access::Rights& rights) const {
  if (limits == nullptr || rights.is_admin()) return {};
  return limits->Of(rights.caller().user);
}

std::unique_ptr<jobs::UploadClaim> UserAccounts::BeginUpload(
    const access::Rights& rights) const {
  if (ledger == nullptr) return nullptr;
  return ledger->Begin(rights.caller().user, LimitsOf(rights));
}

absl::Status UserAccounts::Describe(const access::Rights& rights,
                                    jobs::JobReader& reader,
                                    v1::UserUsage& out) const {
  const std::string& user = rights.caller().user;
  const jobs::UserLimits most = LimitsOf(rights);
  out.set_user(user);
  out.set_queued_jobs(reader.QueuedOf(user));
  if (most.queued_jobs) out.set_max_queued_jobs(*most.queued_jobs);
  if (most.upload_bytes) out.set_max_upload_bytes(*most.upload_bytes);
  if (most.result_bytes) out.set_max_result_bytes(*most.result_bytes);
  const jobs::UserLimits none;
  if (most.lowest_priority != none.lowest_priority) {
    out.set_min_priority(most.lowest_priority);
  }
  if (most.highest_priority != none.highest_priority) {
    out.set_max_priority(most.highest_priority);
  }
  if (ledger == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(const jobs::UserBytes bytes, ledger->BytesOf(user));
  out.set_upload_bytes(bytes.uploads);
  out.set_result_bytes(bytes.results);
  return absl::OkStatus();
}

}  // namespace mpsd::rpc
