// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_AUDIT_DETAIL_H_
#define MPSD_SERVER_RPC_AUDIT_DETAIL_H_

#include <string>

#include "mpsd/v1/access.pb.h"
#include "mpsd/v1/daemon.pb.h"
#include "mpsd/v1/jobs.pb.h"
#include "mpsd/v1/models.pb.h"
#include "mpsd/v1/runbook.pb.h"

namespace mpsd::rpc {

// A request's details, in words for the audit. Quotes no spec, no label and no
// path, since only the job's owner may see these.
std::string AuditDetail(const v1::SubmitRequest& request);
std::string AuditDetail(const v1::CancelRequest& request);
std::string AuditDetail(const v1::MoveRequest& request);
std::string AuditDetail(const v1::RetryRequest& request);
std::string AuditDetail(const v1::DrainRequest& request);
std::string AuditDetail(const v1::DeleteJobsRequest& request);
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

#endif  // MPSD_SERVER_RPC_AUDIT_DETAIL_H_
