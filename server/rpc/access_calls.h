// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_ACCESS_CALLS_H_
#define MPSD_SERVER_RPC_ACCESS_CALLS_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "mpsd/v1/access.pb.h"
#include "server/access/rules.h"
#include "server/access/token_book.h"

namespace mpsd::rpc {

// The calls of AccessService about tokens; errors as in the proto. The rules of
// server/access/rules.h have admitted the caller.
absl::Status WhoAmI(const access::TokenBook& book, const access::Caller& caller,
                    std::optional<absl::Time> certificate_expiry,
                    v1::WhoAmIResponse& response);
// PermissionDenied for a role above the caller's own. `now`: the token must
// expire after it.
absl::Status CreateToken(access::TokenBook& book, const access::Caller& caller,
                         const v1::CreateTokenRequest& request, absl::Time now,
                         v1::CreateTokenResponse& response);
absl::Status ListTokens(const access::TokenBook& book,
                        const access::Caller& caller,
                        v1::ListTokensResponse& response);
absl::Status RevokeToken(access::TokenBook& book, const access::Caller& caller,
                         const v1::RevokeTokenRequest& request,
                         v1::RevokeTokenResponse& response);

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_ACCESS_CALLS_H_
