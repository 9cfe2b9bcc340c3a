// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_HTTP_DOORS_H_
#define MPSD_SERVER_HTTP_DOORS_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "server/http/server.h"

namespace mpsd {

// A door by HTTP beside the API, which jobs can do without.
struct HttpDoor {
  const char* what;     // for people: "the web page"
  const char* option;   // "--http-listen"
  std::string address;  // the option's; empty: off
  std::optional<http::TlsFiles> tls = {};
};

// Listens. Null where the door is off, and where another program has the
// address, which `log` is told: jobs matter more than the door. Other errors
// name the option. `log`: as http::Server::Options has it.
absl::StatusOr<std::unique_ptr<http::Server>> OpenHttpDoor(
    const HttpDoor& door, const std::function<void(const std::string&)>& log);

}  // namespace mpsd

#endif  // MPSD_SERVER_HTTP_DOORS_H_
