// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_ORIGIN_H_
#define MPSD_SERVER_RPC_ORIGIN_H_

#include <string>
#include <string_view>

namespace mpsd::rpc {

// A call's origin, human-readable: "10.0.0.1", "fe80::1"; "this machine" for a
// unix socket.
std::string Origin(std::string_view peer);

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_ORIGIN_H_
