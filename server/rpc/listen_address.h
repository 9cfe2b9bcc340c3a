// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_LISTEN_ADDRESS_H_
#define MPSD_SERVER_RPC_LISTEN_ADDRESS_H_

#include <string>

#include "absl/status/status.h"

namespace mpsd::listener {

// The path of a unix socket: "/run/mpsd.sock" for "unix:/run/mpsd.sock". Empty
// for other addresses.
std::string SocketPath(const std::string& address);

// Opens nothing. InvalidArgument for an address that no socket can listen on:
// no host or port, a socket path too long for the system, or a path of
// something other than a socket.
absl::Status CheckListenAddress(const std::string& address);

// The host of HOST:PORT, without the brackets of an IPv6 address.
std::string HostOf(const std::string& address);

// Whether only programs of this machine can connect to HOST:PORT: the host is
// localhost, in 127.0.0.0/8 or ::1. Queries no name server.
bool IsLoopback(const std::string& address);

// `address` with port 0 replaced by the real port.
std::string BoundAddress(const std::string& address, int port);

}  // namespace mpsd::listener

#endif  // MPSD_SERVER_RPC_LISTEN_ADDRESS_H_
