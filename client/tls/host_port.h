// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_TLS_HOST_PORT_H_
#define MPSD_CLIENT_TLS_HOST_PORT_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace mpsd::client {

struct HostPort {
  std::string host;  // a name, or an address without brackets
  std::string port;  // "7433"

  // "studio:7433", "[::1]:7433".
  std::string Text() const;
};

// InvalidArgument, with the form that was expected, for anything but HOST:PORT
// and [IPV6]:PORT.
absl::StatusOr<HostPort> ParseHostPort(std::string_view text);

// Whether `host` is an address, not a name.
bool IsIpAddress(const std::string& host);

// Whether `host` is this machine by its very name: localhost, 127.0.0.0/8, ::1.
bool IsLoopback(std::string_view host);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_TLS_HOST_PORT_H_
