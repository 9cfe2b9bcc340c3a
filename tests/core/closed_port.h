// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace mpsd {
inline namespace testing_support {

// A port of 127.0.0.1 on which no process listens, and that no other process
// gets meanwhile.
class ClosedPort {
 public:
  ClosedPort() {
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address_);
    auto* name = reinterpret_cast<sockaddr*>(&address_);
    if (bind(socket_, name, size) != 0 ||
        getsockname(socket_, name, &size) != 0) {
      std::abort();
    }
  }
  ~ClosedPort() { close(socket_); }
  ClosedPort(const ClosedPort&) = delete;
  ClosedPort& operator=(const ClosedPort&) = delete;
  std::string port() const { return std::to_string(ntohs(address_.sin_port)); }

 private:
  const int socket_ = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address_{};
};

}  // namespace testing_support
}  // namespace mpsd
