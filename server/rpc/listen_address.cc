// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/listen_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstdint>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace mpsd::listener {
namespace {

constexpr char kUnix[] = "unix:";
constexpr size_t kMaxSocketPath = sizeof(sockaddr_un::sun_path) - 1;
constexpr int32_t kMaxPort = 65535;

bool IsHostAndPort(const std::string& address) {
  const size_t colon = address.rfind(':');
  int32_t port = 0;
  return colon != std::string::npos && colon > 0 &&
         absl::SimpleAtoi(address.substr(colon + 1), &port) && port >= 0 &&
         port <= kMaxPort;
}

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
    if (address != kUnix && IsHostAndPort(address)) return absl::OkStatus();
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
        "address '", address, "': ", path, " exists and is not a socket"));
  }
  return absl::OkStatus();
}

bool IsLoopback(const std::string& address) {
  const std::string host = HostOf(address);
  in_addr v4{};
  in6_addr v6{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) {
    return ntohl(v4.s_addr) >> 24 == IN_LOOPBACKNET;
  }
  if (inet_pton(AF_INET6, host.c_str(), &v6) == 1) {
    return IN6_IS_ADDR_LOOPBACK(&v6);
  }
  return absl::EqualsIgnoreCase(host, "localhost");
}

std::string HostOf(const std::string& address) {
  std::string host = address.substr(0, address.rfind(':'));
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  }
  return host;
}

std::string BoundAddress(const std::string& address, int port) {
  if (!SocketPath(address).empty()) return address;
  return absl::StrCat(address.substr(0, address.rfind(':')), ":", port);
}

}  // namespace mpsd::listener
