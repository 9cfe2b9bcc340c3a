// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_STATUS_H_
#define MPSD_SERVER_RPC_STATUS_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "grpcpp/grpcpp.h"

namespace mpsd::rpc {

// The only place where a Status becomes a grpc::Status: the same code, the
// message made valid UTF-8 and cut where a header would get too long (6,000
// characters of ASCII).
grpc::Status ToGrpc(const absl::Status& status);

// `text` with every byte that is no UTF-8 replaced by U+FFFD: protobuf refuses
// to parse a string with others in it.
std::string ValidUtf8(std::string_view text);

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_STATUS_H_
