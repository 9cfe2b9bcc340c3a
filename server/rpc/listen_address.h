// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_LISTEN_ADDRESS_H_
#define MPSD_SERVER_RPC_LISTEN_ADDRESS_H_

#include <string>

#include "absl/status/status.h"

namespace mpsd::rpc {

// "/run/mpsd.sock" of "unix:/run/mpsd.sock"; empty for other addresses.
std::string SocketPath(const std::string& address);

// InvalidArgument, before anything is touched, for an address that cannot be
// listened on: a socket path the system has no room for, or one where something
// lies that is no socket.
absl::Status CheckListenAddress(const std::string& address);

// `address` with the port that was found for port 0.
std::string BoundAddress(const std::string& address, int port);

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_LISTEN_ADDRESS_H_
