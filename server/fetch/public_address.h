// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_FETCH_PUBLIC_ADDRESS_H_
#define MPSD_SERVER_FETCH_PUBLIC_ADDRESS_H_

#include <sys/socket.h>

#include <string>

namespace mpsd::fetch {

// Whether the address belongs to the public internet: no loopback, private,
// link-local, shared, documentation, benchmark, multicast or reserved address
// (IANA's special-purpose registries), and no IPv6 address that stands for such
// an IPv4 address (mapped, NAT64, 6to4). False for families other than IPv4 and
// IPv6.
bool IsPublicAddress(const sockaddr& address);

// "127.0.0.1", "::1", for people.
std::string AddressText(const sockaddr& address);

}  // namespace mpsd::fetch

#endif  // MPSD_SERVER_FETCH_PUBLIC_ADDRESS_H_
