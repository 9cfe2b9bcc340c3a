// SPDX-License-Identifier: Apache-2.0
#include "server/http_doors.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/descriptor_limit.h"

namespace mpsd {

absl::StatusOr<std::unique_ptr<http::Server>> OpenHttpDoor(
    const HttpDoor& door, const std::function<void(const std::string&)>& log) {
  if (door.address.empty()) return nullptr;
  http::Server::Options serve;
  serve.address = door.address;
  serve.tls = door.tls;
  serve.max_descriptor = FirstReservedDescriptor(RaiseDescriptorLimit());
  serve.log = log;
  absl::StatusOr<std::unique_ptr<http::Server>> server =
      http::Server::Open(std::move(serve));
  if (server.ok()) return server;
  if (absl::IsUnavailable(server.status())) {
    log(absl::StrCat(door.what, " is off: ", server.status().message(),
                     " (choose another ", door.option, ")"));
    return nullptr;
  }
  return absl::Status(
      server.status().code(),
      absl::StrCat(door.option, ": ", server.status().message()));
}

}  // namespace mpsd
