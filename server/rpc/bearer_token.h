// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_BEARER_TOKEN_H_
#define MPSD_SERVER_RPC_BEARER_TOKEN_H_

#include <map>
#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "grpcpp/grpcpp.h"

namespace mpsd::rpc {

// A call's metadata, as gRPC gives them to handlers and to processors.
using Metadata = std::multimap<grpc::string_ref, grpc::string_ref>;

// The value of the call's one "authorization: Bearer TOKEN"; nullopt if there
// is no such line. Unauthenticated, without quoting it, for several lines,
// another scheme and a token longer than limits::kTokenBytes. The value lives
// as long as the metadata.
absl::StatusOr<std::optional<std::string_view>> BearerToken(
    const Metadata& metadata);

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_BEARER_TOKEN_H_
