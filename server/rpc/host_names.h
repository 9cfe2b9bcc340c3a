// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_HOST_NAMES_H_
#define MPSD_SERVER_RPC_HOST_NAMES_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

// The names that a server's certificate holds: DNS names and addresses.
namespace mpsd::pki {

// `text` in the one spelling that a certificate uses: a DNS name in lower case
// without a final dot, or an address as the system writes it, without brackets.
// InvalidArgument says what is wrong, for a port and an IPv6 zone too.
absl::StatusOr<std::string> ParseHostName(std::string_view text);

// Whether a name that ParseHostName returned is an address.
bool IsAddress(const std::string& name);

// What the system knows of this machine.
struct Machine {
  std::string host_name;               // "studio", "studio.example.com"
  std::vector<std::string> addresses;  // of interfaces that are up
};
Machine ThisMachine();

// `given`; the host name, its first label, and that in the domain "local", by
// which machines of a local network find each other (mDNS); localhost,
// 127.0.0.1 and ::1; then as many of the machine's addresses as a certificate
// has room for (limits::kHostNames). Each name once. Omits addresses that mean
// something else on each machine (IPv6 link-local ones) and a host name that no
// certificate can hold. InvalidArgument for a name of `given` that
// ParseHostName refuses, and if the names alone are too many.
absl::StatusOr<std::vector<std::string>> ServerNames(
    const Machine& machine, const std::vector<std::string>& given);

}  // namespace mpsd::pki

#endif  // MPSD_SERVER_RPC_HOST_NAMES_H_
