// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "mpsd/v1/access.pb.h"
#include "mpsd/v1/daemon.pb.h"
#include "mpsd/v1/jobs.pb.h"
#include "mpsd/v1/models.pb.h"
#include "mpsd/v1/runbook.pb.h"
#include "server/access/audit_trail.h"
#include "server/access/rules.h"
#include "server/access/token_book.h"
#include "server/jobs/job_reader.h"
#include "server/jobs/user_limits.h"

namespace mpsd::rpc {

// The limits and the usage of the API's callers. What it points to must outlive
// the calls. Thread-safe.
struct UserAccounts {
  const jobs::LimitSettings* limits = nullptr;
  jobs::UserLedger* ledger = nullptr;

  // No limits for an admin.
  jobs::UserLimits LimitsOf(const access::Rights& rights) const;
  std::unique_ptr<jobs::UploadClaim> BeginUpload(
      const access::Rights& rights) const;
  // Fills in the caller's usage and limits.
  absl::Status Describe(const access::Rights& rights, jobs::JobReader& reader,
                        v1::UserUsage& out) const;
};

// The calls of AccessService; errors as in the proto. The rules of
// server/access/rules.h have admitted the caller.
absl::Status WhoAmI(const access::TokenBook& book, const access::Caller& caller,
                    std::optional<absl::Time> certificate_expiry,
                    v1::WhoAmIResponse& response);
// PermissionDenied for a role above the caller's own.
absl::Status CreateToken(access::TokenBook& book, const access::Caller& caller,
                         const v1::CreateTokenRequest& request,
                         v1::CreateTokenResponse& response);
absl::Status ListTokens(const access::TokenBook& book,
                        const access::Caller& caller,
                        v1::ListTokensResponse& response);
absl::Status RevokeToken(access::TokenBook& book, const access::Caller& caller,
                         const v1::RevokeTokenRequest& request,
                         v1::RevokeTokenResponse& response);

// A caller who is not an admin sees the caller's own entries, and gets
// PermissionDenied if the filter names another user.
absl::Status ListAudit(access::AuditStore& audit, const access::Caller& caller,
                       const v1::ListAuditRequest& request,
                       v1::ListAuditResponse& response);

// A request's details, in words for the audit. Quotes no spec, no label and no
// path, since only the job's owner may see these.
std::string AuditDetail(const v1::SubmitRequest& request);
std::string AuditDetail(const v1::CancelRequest& request);
std::string AuditDetail(const v1::MoveRequest& request);
std::string AuditDetail(const v1::RetryRequest& request);
std::string AuditDetail(const v1::DrainRequest& request);
std::string AuditDetail(const v1::DeleteRequest& request);
std::string AuditDetail(const v1::CreateTokenRequest& request);
std::string AuditDetail(const v1::RevokeTokenRequest& request);
std::string AuditDetail(const v1::PushModelRequest& request);
std::string AuditDetail(const v1::RemoveModelRequest& request);
std::string AuditDetail(const v1::PullModelRequest& request);
std::string AuditDetail(const v1::CancelPullRequest& request);
std::string AuditDetail(const v1::AddNoteRequest& request);
std::string AuditDetail(const v1::TagRequest& request);
std::string AuditDetail(const v1::DiagnoseRequest& request);

}  // namespace mpsd::rpc
