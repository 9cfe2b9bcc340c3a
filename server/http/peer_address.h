// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_HTTP_PEER_ADDRESS_H_
#define MPSD_SERVER_HTTP_PEER_ADDRESS_H_

#include <string>

namespace mpsd::http {

// The address of who is at the other end of a connected socket: "10.0.0.1",
// "fe80::1"; an IPv4 client of a socket for both as IPv4. Empty for a unix
// socket, and where the client is gone already.
std::string PeerAddress(int fd);

}  // namespace mpsd::http

#endif  // MPSD_SERVER_HTTP_PEER_ADDRESS_H_
