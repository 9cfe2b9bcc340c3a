// SPDX-License-Identifier: Apache-2.0
#include "server/fetch/public_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <array>
#include <cstdint>
#include <cstring>

namespace mpsd::fetch {
namespace {

struct Block4 {
  uint32_t first;
  int bits;
};

// The blocks of IPv4 that no public server has.
constexpr Block4 kSpecial4[] = {
    {0x00000000, 8},   // this network
    {0x0a000000, 8},   // private
    {0x64400000, 10},  // shared by a provider's customers
    {0x7f000000, 8},   // loopback
    {0xa9fe0000, 16},  // link-local; clouds' metadata
    {0xac100000, 12},  // private
    {0xc0000000, 24},  // protocol assignments
    {0xc0000200, 24},  // documentation
    {0xc0586300, 24},  // 6to4 relays
    {0xc0a80000, 16},  // private
    {0xc6120000, 15},  // benchmarks
    {0xc6336400, 24},  // documentation
    {0xcb007100, 24},  // documentation
    {0xe0000000, 4},   // multicast
    {0xf0000000, 4},   // reserved, broadcast
};

bool IsPublic4(uint32_t address) {
  for (const Block4& block : kSpecial4) {
    if ((address ^ block.first) >> (32 - block.bits) == 0) return false;
  }
  return true;
}

using Bytes = std::array<uint8_t, 16>;

uint32_t Embedded4(const Bytes& b, size_t at) {
  return uint32_t{b[at]} << 24 | uint32_t{b[at + 1]} << 16 |
         uint32_t{b[at + 2]} << 8 | uint32_t{b[at + 3]};
}

bool Begins(const Bytes& b, std::initializer_list<uint8_t> with) {
  size_t i = 0;
  for (const uint8_t byte : with) {
    if (b[i++] != byte) return false;
  }
  return true;
}

bool IsPublic6(const Bytes& b) {
  // ::ffff:a.b.c.d and NAT64's 64:ff9b::a.b.c.d
  if (Begins(b, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}) ||
      Begins(b, {0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0})) {
    return IsPublic4(Embedded4(b, 12));
  }
  if (Begins(b, {0x20, 0x02})) return IsPublic4(Embedded4(b, 2));  // 6to4
  if ((b[0] & 0xe0) != 0x20) return false;  // outside of 2000::/3
  if (Begins(b, {0x20, 0x01}) && (b[2] & 0xfe) == 0) return false;  // Teredo …
  if (Begins(b, {0x20, 0x01, 0x0d, 0xb8})) return false;    // documentation
  return !(Begins(b, {0x3f, 0xff}) && (b[2] & 0xf0) == 0);  // documentation
}

}  // namespace

bool IsPublicAddress(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, &address, sizeof(v4));
    return IsPublic4(ntohl(v4.sin_addr.s_addr));
  }
  if (address.sa_family == AF_INET6) {
    sockaddr_in6 v6;
    std::memcpy(&v6, &address, sizeof(v6));
    Bytes bytes;
    std::memcpy(bytes.data(), &v6.sin6_addr, bytes.size());
    return IsPublic6(bytes);
  }
  return false;
}

std::string AddressText(const sockaddr& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.sa_family == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, &address, sizeof(v4));
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof(text));
  } else if (address.sa_family == AF_INET6) {
    sockaddr_in6 v6;
    std::memcpy(&v6, &address, sizeof(v6));
    inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof(text));
  }
  return text;
}

}  // namespace mpsd::fetch
