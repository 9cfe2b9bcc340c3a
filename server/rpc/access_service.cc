// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/access_service.h"

#include "core/base/clock.h"
#include "server/rpc/access_calls.h"
#include "server/rpc/audit_detail.h"
#include "server/rpc/list_audit.h"

namespace mpsd::rpc {

grpc::ServerUnaryReactor* AccessService::WhoAmI(
    grpc::CallbackServerContext* context, const v1::WhoAmIRequest*,
    v1::WhoAmIResponse* response) {
  return Answer(context, gate_, reads_, {"AccessService.WhoAmI"},
                [=, this](Call& call) {
                  return rpc::WhoAmI(tokens_, call.rights.caller(),
                                     certificate_expiry_(), *response);
                });
}

grpc::ServerUnaryReactor* AccessService::CreateToken(
    grpc::CallbackServerContext* context, const v1::CreateTokenRequest* request,
    v1::CreateTokenResponse* response) {
  return Answer(context, gate_, changes_,
                {"AccessService.CreateToken", "", AuditDetail(*request)},
                [=, this](Call& call) {
                  return rpc::CreateToken(tokens_, call.rights.caller(),
                                          *request, base::Clock::Real().Now(),
                                          *response);
                });
}

grpc::ServerUnaryReactor* AccessService::ListTokens(
    grpc::CallbackServerContext* context, const v1::ListTokensRequest*,
    v1::ListTokensResponse* response) {
  return Answer(context, gate_, reads_, {"AccessService.ListTokens"},
                [=, this](Call& call) {
                  return rpc::ListTokens(tokens_, call.rights.caller(),
                                         *response);
                });
}

grpc::ServerUnaryReactor* AccessService::RevokeToken(
    grpc::CallbackServerContext* context, const v1::RevokeTokenRequest* request,
    v1::RevokeTokenResponse* response) {
  return Answer(context, gate_, changes_,
                {"AccessService.RevokeToken", "", AuditDetail(*request)},
                [=, this](Call& call) {
                  return rpc::RevokeToken(tokens_, call.rights.caller(),
                                          *request, *response);
                });
}

grpc::ServerUnaryReactor* AccessService::ListAudit(
    grpc::CallbackServerContext* context, const v1::ListAuditRequest* request,
    v1::ListAuditResponse* response) {
  return Answer(context, gate_, reads_, {"AccessService.ListAudit"},
                [=, this](Call& call) {
                  return rpc::ListAudit(audit_, call.rights.caller(), *request,
                                        *response);
                });
}

}  // namespace mpsd::rpc
