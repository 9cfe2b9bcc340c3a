// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_IDENTIFY_H_
#define MPSD_SERVER_RPC_IDENTIFY_H_

#include <functional>

#include "absl/status/statusor.h"
#include "server/access/rules.h"
#include "server/access/token_book.h"

namespace grpc {
class CallbackServerContext;
}

namespace mpsd::rpc {

// Authenticates a call, by its connection and its metadata. Unauthenticated for
// an unknown caller. Called on gRPC's own threads: never blocks.
using Identify = std::function<absl::StatusOr<access::Caller>(
    const grpc::CallbackServerContext&)>;

// The callers that the API knows.
struct KnownCallers {
  // Must outlive the server; null: no token is known.
  access::TokenLookup* tokens = nullptr;
  access::RolePolicy roles;  // of accounts
};

// Identifies callers by the notes of the server's entrances (entrances.h) on
// their connection, or by their token. No metadata but a known token identifies
// a caller.
Identify MakeIdentify(KnownCallers known);

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_IDENTIFY_H_
