// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_PEER_H_
#define MPSD_SERVER_RPC_PEER_H_

#include <sys/types.h>

#include <optional>

namespace mpsd::listener {

// The process at the other end of a unix socket, as the kernel recorded it when
// the process connected.
struct Peer {
  uid_t uid = 0;
  pid_t pid = 0;  // 0: unknown
};

// nullopt if the kernel knows none, as for a connection to a port.
std::optional<Peer> PeerOf(int fd);

}  // namespace mpsd::listener

#endif  // MPSD_SERVER_RPC_PEER_H_
