// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/peer.h"

#include <sys/socket.h>
#include <sys/un.h>
#ifdef __APPLE__
#include <sys/ucred.h>
#endif

namespace mpsd::listener {

std::optional<Peer> PeerOf(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  // Linux returns credentials for a port as well, with an unused account.
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0 ||
      address.ss_family != AF_UNIX) {
    return std::nullopt;
  }
#ifdef __APPLE__
  xucred credentials{};
  length = sizeof(credentials);
  if (getsockopt(fd, SOL_LOCAL, LOCAL_PEERCRED, &credentials, &length) != 0 ||
      length != sizeof(credentials) ||
      credentials.cr_version != XUCRED_VERSION) {
    return std::nullopt;
  }
  Peer peer{credentials.cr_uid, 0};
  length = sizeof(peer.pid);
  if (getsockopt(fd, SOL_LOCAL, LOCAL_PEERPID, &peer.pid, &length) != 0) {
    peer.pid = 0;
  }
  return peer;
#else
  ucred credentials{};
  length = sizeof(credentials);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0 ||
      length != sizeof(credentials)) {
    return std::nullopt;
  }
  return Peer{credentials.uid, credentials.pid};
#endif
}

}  // namespace mpsd::listener
