// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/origin.h"

#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

namespace mpsd::rpc {

std::string Origin(std::string_view peer) {
  if (!peer.starts_with("ip")) return "this machine";
  const std::string_view machine = peer.substr(0, peer.rfind(':'));
  // gRPC writes an IPv6 address as in a URI: "ipv6:%5Bfe80::1%5D".
  std::string address = absl::StrReplaceAll(
      std::string(machine.substr(machine.find(':') + 1)),
      {{"%5B", ""}, {"%5D", ""}, {"[", ""}, {"]", ""}, {"%25", "%"}});
  // An IPv4 client of a socket for both.
  return std::string(absl::StripPrefix(address, "::ffff:"));
}

}  // namespace mpsd::rpc
