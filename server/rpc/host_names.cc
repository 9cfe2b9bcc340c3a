// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/host_names.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/limits.h"
#include "core/base/printable.h"
#include "core/base/status_macros.h"

namespace mpsd::pki {
namespace {

constexpr size_t kDnsNameBytes = 253;  // RFC 1035, without the final dot
constexpr size_t kDnsLabelBytes = 63;

// The address as the system writes it; empty for other text.
std::string Address(const std::string& text) {
  unsigned char bytes[sizeof(in6_addr)];
  char written[INET6_ADDRSTRLEN];
  for (const int family : {AF_INET, AF_INET6}) {
    if (inet_pton(family, text.c_str(), bytes) == 1 &&
        inet_ntop(family, bytes, written, sizeof(written)) != nullptr) {
      return written;
    }
  }
  return "";
}

bool IsLabel(const std::string& label) {
  return !label.empty() && label.size() <= kDnsLabelBytes &&
         label.front() != '-' && label.back() != '-' &&
         std::all_of(label.begin(), label.end(), [](char c) {
           return absl::ascii_isalnum(c) || c == '-' || c == '_';
         });
}

bool IsDnsName(const std::string& name) {
  if (name.empty() || name.size() > kDnsNameBytes) return false;
  const std::vector<std::string> labels = absl::StrSplit(name, '.');
  // A last label of only digits is a mistyped address.
  return std::all_of(labels.begin(), labels.end(), IsLabel) &&
         !std::all_of(labels.back().begin(), labels.back().end(),
                      [](char c) { return absl::ascii_isdigit(c); });
}

bool IsLinkLocal6(const sockaddr& address) {
  return address.sa_family == AF_INET6 &&
         IN6_IS_ADDR_LINKLOCAL(
             &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
}

std::string AddressOf(const sockaddr& address) {
  char text[INET6_ADDRSTRLEN];
  const void* bytes = nullptr;
  if (address.sa_family == AF_INET) {
    bytes = &reinterpret_cast<const sockaddr_in&>(address).sin_addr;
  } else if (address.sa_family == AF_INET6) {
    bytes = &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  }
  if (bytes == nullptr ||
      inet_ntop(address.sa_family, bytes, text, sizeof(text)) == nullptr) {
    return "";
  }
  return text;
}

void AddOnce(const std::string& name, std::vector<std::string>& names) {
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    names.push_back(name);
  }
}

}  // namespace

absl::StatusOr<std::string> ParseHostName(std::string_view text) {
  std::string name(text);
  if (name.size() > 2 && name.front() == '[' && name.back() == ']') {
    name = name.substr(1, name.size() - 2);
  }
  // inet_pton reads up to a NUL.
  const bool whole = name.find('\0') == name.npos;
  if (std::string address = Address(name); whole && !address.empty()) {
    return address;
  }
  if (!name.empty() && name.back() == '.') name.pop_back();
  absl::AsciiStrToLower(&name);
  if (IsDnsName(name)) return name;
  const char* hint = "";
  if (text.find('%') != text.npos) {
    hint = "; an address with a zone means another machine elsewhere";
  } else if (text.find(':') != text.npos) {
    hint = "; a name has no port";
  } else if (text.find('*') != text.npos) {
    hint = "; a name has no wildcard";
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "'", base::Quotable(text),
      "' is not a name for a certificate: expected an address, or a DNS name "
      "of letters, digits, '-' and '_' (others in their xn-- form)",
      hint));
}

bool IsAddress(const std::string& name) { return !Address(name).empty(); }

Machine ThisMachine() {
  Machine machine;
  char name[256] = "";
  if (gethostname(name, sizeof(name) - 1) == 0) machine.host_name = name;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return machine;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(all,
                                                               &freeifaddrs);
  for (const ifaddrs* at = all; at != nullptr; at = at->ifa_next) {
    const bool counts =
        at->ifa_addr != nullptr && (at->ifa_flags & IFF_UP) != 0 &&
        (at->ifa_flags & IFF_LOOPBACK) == 0 && !IsLinkLocal6(*at->ifa_addr);
    const std::string address = counts ? AddressOf(*at->ifa_addr) : "";
    if (!address.empty()) AddOnce(address, machine.addresses);
  }
  return machine;
}

absl::StatusOr<std::vector<std::string>> ServerNames(
    const Machine& machine, const std::vector<std::string>& given) {
  std::vector<std::string> names;
  for (const std::string& text : given) {
    ASSIGN_OR_RETURN(const std::string name, ParseHostName(text));
    AddOnce(name, names);
  }
  const absl::StatusOr<std::string> host = ParseHostName(machine.host_name);
  if (host.ok() && !IsAddress(*host)) {
    const std::string label = host->substr(0, host->find('.'));
    AddOnce(*host, names);
    AddOnce(label, names);
    if (label != "localhost") AddOnce(absl::StrCat(label, ".local"), names);
  }
  for (const char* own : {"localhost", "127.0.0.1", "::1"}) {
    AddOnce(own, names);
  }
  if (names.size() > limits::kHostNames) {
    return absl::InvalidArgumentError(
        absl::StrCat(names.size(), " names, but a certificate holds at most ",
                     limits::kHostNames));
  }
  for (const std::string& address : machine.addresses) {
    if (names.size() < limits::kHostNames) AddOnce(address, names);
  }
  return names;
}

}  // namespace mpsd::pki
