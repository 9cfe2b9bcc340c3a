// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/listen_address.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace mpsd::rpc {
namespace {

constexpr char kUnix[] = "unix:";
constexpr size_t kMaxSocketPath = sizeof(sockaddr_un::sun_path) - 1;

}  // namespace

std::string SocketPath(const std::string& address) {
  if (address.rfind(kUnix, 0) != 0) return "";
  const std::string path = address.substr(sizeof(kUnix) - 1);
  // gRPC reads unix:///absolute as unix:/absolute.
  return path.rfind("///", 0) == 0 ? path.substr(2) : path;
}

absl::Status CheckListenAddress(const std::string& address) {
  const std::string path = SocketPath(address);
  if (path.empty()) {
    const bool has_port = address.find(':') != std::string::npos;
    if (has_port && address != kUnix) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "address '", address, "': expected HOST:PORT or unix:PATH"));
  }
  if (path.size() > kMaxSocketPath) {
    return absl::InvalidArgumentError(
        absl::StrCat("address '", address, "': the socket's path has ",
                     path.size(), " bytes, the system allows ", kMaxSocketPath,
                     "; choose a shorter --state-dir or a socket elsewhere"));
  }
  std::error_code error;
  const auto type = std::filesystem::symlink_status(path, error).type();
  if (type != std::filesystem::file_type::not_found &&
      type != std::filesystem::file_type::socket) {
    return absl::InvalidArgumentError(absl::StrCat(
        "address '", address, "': ", path, " exists and is no socket"));
  }
  return absl::OkStatus();
}

std::string BoundAddress(const std::string& address, int port) {
  if (!SocketPath(address).empty()) return address;
  return absl::StrCat(address.substr(0, address.rfind(':')), ":", port);
}

}  // namespace mpsd::rpc
