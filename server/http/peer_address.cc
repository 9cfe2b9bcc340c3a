// SPDX-License-Identifier: Apache-2.0
#include "server/http/peer_address.h"

#include <netdb.h>
#include <sys/socket.h>

#include <string_view>

namespace mpsd::http {

std::string PeerAddress(int fd) {
  sockaddr_storage peer{};
  socklen_t length = sizeof(peer);
  auto* const address = reinterpret_cast<sockaddr*>(&peer);
  if (getpeername(fd, address, &length) != 0) return "";
  if (peer.ss_family != AF_INET && peer.ss_family != AF_INET6) return "";
  char text[NI_MAXHOST];
  // Numbers alone: no name service is asked.
  if (getnameinfo(address, length, text, sizeof text, nullptr, 0,
                  NI_NUMERICHOST) != 0) {
    return "";
  }
  constexpr std::string_view kMapped = "::ffff:";
  const std::string_view shown(text);
  return std::string(shown.starts_with(kMapped) ? shown.substr(kMapped.size())
                                                : shown);
}

}  // namespace mpsd::http
