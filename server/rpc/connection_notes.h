// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_CONNECTION_NOTES_H_
#define MPSD_SERVER_RPC_CONNECTION_NOTES_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/grpcpp.h"
#include "server/access/rules.h"
#include "server/rpc/bearer_token.h"
#include "server/rpc/identify.h"

namespace mpsd::rpc {

// A connection's credentials are stored in its grpc::AuthContext, which gRPC
// keeps for all of its calls and which no client can write. A note is written
// once, before the connection's first handler runs, and read by handlers.

// Notes that the kernel names the account `uid` of the user `user`.
void NoteAccount(uid_t uid, const std::string& user,
                 grpc::AuthContext& connection);

// The caller on a connection with these notes: the account; else the owner of
// the token that the call carries. Unauthenticated, with what to do, if there
// is neither. The caller's origin stays empty.
absl::StatusOr<access::Caller> CallerOf(const grpc::AuthContext& connection,
                                        const Metadata& metadata,
                                        const KnownCallers& known);

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_CONNECTION_NOTES_H_
