// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_ACCESS_SERVICE_H_
#define MPSD_SERVER_RPC_ACCESS_SERVICE_H_

#include <functional>
#include <optional>
#include <utility>

#include "absl/time/time.h"
#include "mpsd/v1/access.grpc.pb.h"
#include "server/access/audit_trail.h"
#include "server/access/token_book.h"
#include "server/rpc/gate.h"
#include "server/rpc/unary_call.h"

namespace mpsd::rpc {

// mpsd.v1.AccessService. The borrowed objects must outlive the service.
class AccessService final : public v1::AccessService::CallbackService {
 public:
  // Tells when the certificate of the TLS addresses expires; nullopt where
  // there is none. Called on any thread.
  using CertificateExpiry = std::function<std::optional<absl::Time>()>;

  // `changes`: the threads for calls that wait for the store.
  AccessService(const Gate& gate, access::TokenBook& tokens,
                access::AuditStore& audit, CertificateExpiry certificate_expiry,
                CallHost& reads, CallHost& changes)
      : gate_(gate),
        tokens_(tokens),
        audit_(audit),
        certificate_expiry_(std::move(certificate_expiry)),
        reads_(reads),
        changes_(changes) {}

  grpc::ServerUnaryReactor* WhoAmI(grpc::CallbackServerContext* context,
                                   const v1::WhoAmIRequest* request,
                                   v1::WhoAmIResponse* response) override;
  grpc::ServerUnaryReactor* CreateToken(
      grpc::CallbackServerContext* context,
      const v1::CreateTokenRequest* request,
      v1::CreateTokenResponse* response) override;
  grpc::ServerUnaryReactor* ListTokens(
      grpc::CallbackServerContext* context,
      const v1::ListTokensRequest* request,
      v1::ListTokensResponse* response) override;
  grpc::ServerUnaryReactor* RevokeToken(
      grpc::CallbackServerContext* context,
      const v1::RevokeTokenRequest* request,
      v1::RevokeTokenResponse* response) override;
  grpc::ServerUnaryReactor* ListAudit(grpc::CallbackServerContext* context,
                                      const v1::ListAuditRequest* request,
                                      v1::ListAuditResponse* response) override;

 private:
  const Gate& gate_;
  access::TokenBook& tokens_;
  access::AuditStore& audit_;
  const CertificateExpiry certificate_expiry_;
  CallHost& reads_;
  CallHost& changes_;
};

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_ACCESS_SERVICE_H_
