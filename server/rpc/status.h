// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_STATUS_H_
#define MPSD_SERVER_RPC_STATUS_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "grpcpp/grpcpp.h"

namespace mpsd::rpc {

// Converts a Status to a grpc::Status; the only code that does. The code is
// kept; the message becomes valid UTF-8 and is cut if the header would be too
// long (6,000 characters of ASCII).
grpc::Status ToGrpc(const absl::Status& status);

// `text` with U+FFFD in place of every byte that is not UTF-8: protobuf refuses
// to parse a string that contains such bytes.
std::string ValidUtf8(std::string_view text);

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_STATUS_H_
