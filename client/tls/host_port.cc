// SPDX-License-Identifier: Apache-2.0
#include "client/tls/host_port.h"

#include <arpa/inet.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/printable.h"

namespace mpsd::client {
namespace {

constexpr size_t kLongestHost = 253;  // of DNS

bool IsAddress(int family, const std::string& host) {
  unsigned char bytes[sizeof(in6_addr)];
  return inet_pton(family, host.c_str(), bytes) == 1;
}

bool IsName(const std::string& host) {
  return !host.empty() && host.size() <= kLongestHost && host[0] != '-' &&
         std::all_of(host.begin(), host.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) || c == '-' || c == '.' || c == '_';
         });
}

}  // namespace

std::string HostPort::Text() const {
  return host.find(':') == std::string::npos
             ? absl::StrCat(host, ":", port)
             : absl::StrCat("[", host, "]:", port);
}

absl::StatusOr<HostPort> ParseHostPort(std::string_view text) {
  absl::Status wrong = absl::InvalidArgumentError(
      absl::StrCat("'", base::Quotable(text),
                   "' is no address of mpsd: expected HOST:PORT, as in "
                   "studio.local:7433, or [IPV6]:PORT"));
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return wrong;
  HostPort result{std::string(text.substr(0, colon)),
                  std::string(text.substr(colon + 1))};
  uint32_t port = 0;
  if (!std::all_of(result.port.begin(), result.port.end(),
                   absl::ascii_isdigit) ||
      !absl::SimpleAtoi(result.port, &port) || port == 0 || port > 65535) {
    return wrong;
  }
  result.port = absl::StrCat(port);
  std::string& host = result.host;
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
    if (!IsAddress(AF_INET6, host)) return wrong;
    return result;
  }
  if (!IsName(host)) return wrong;
  return result;
}

bool IsIpAddress(const std::string& host) {
  return IsAddress(AF_INET, host) || IsAddress(AF_INET6, host);
}

bool IsLoopback(std::string_view host) {
  const std::string name =
      absl::AsciiStrToLower(std::string(host.substr(0, kLongestHost)));
  if (name == "localhost") return true;
  in6_addr v6;
  if (inet_pton(AF_INET6, name.c_str(), &v6) == 1) {
    return IN6_IS_ADDR_LOOPBACK(&v6);
  }
  return name.starts_with("127.") && IsAddress(AF_INET, name);
}

}  // namespace mpsd::client
