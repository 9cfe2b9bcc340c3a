// SPDX-License-Identifier: Apache-2.0
#include "server/http/peer_address.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace mpsd::http {
namespace {

// Connects to itself by the loopback address of `family`.
std::string AddressOf(int family) {
  const int listening = socket(AF_INET6, SOCK_STREAM, 0);
  const int no = 0;
  setsockopt(listening, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
  sockaddr_in6 any{};
  any.sin6_family = AF_INET6;
  any.sin6_addr = in6addr_any;
  socklen_t length = sizeof any;
  auto* const name = reinterpret_cast<sockaddr*>(&any);
  if (bind(listening, name, length) != 0 || listen(listening, 1) != 0 ||
      getsockname(listening, name, &length) != 0) {
    close(listening);
    return "no socket";
  }
  const int client = socket(family, SOCK_STREAM, 0);
  sockaddr_in old{};
  old.sin_family = AF_INET;
  old.sin_port = any.sin6_port;
  old.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  any.sin6_addr = in6addr_loopback;
  const bool is_old = family == AF_INET;
  const int connected =
      connect(client, is_old ? reinterpret_cast<sockaddr*>(&old) : name,
              is_old ? sizeof old : sizeof any);
  const int accepted =
      connected == 0 ? accept(listening, nullptr, nullptr) : -1;
  const std::string address = PeerAddress(accepted);
  for (const int fd : {listening, client, accepted}) close(fd);
  return connected == 0 ? address : "no socket";
}

TEST(PeerAddress, IsANumber) {
  const std::string old = AddressOf(AF_INET);
  EXPECT_TRUE(old == "127.0.0.1" || old == "no socket") << old;
  const std::string now = AddressOf(AF_INET6);
  EXPECT_TRUE(now == "::1" || now == "no socket") << now;
}

TEST(PeerAddress, AUnixSocketHasNone) {
  int pair[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  EXPECT_EQ(PeerAddress(pair[0]), "");
  close(pair[0]);
  close(pair[1]);
  EXPECT_EQ(PeerAddress(pair[0]), "");
}

}  // namespace
}  // namespace mpsd::http
