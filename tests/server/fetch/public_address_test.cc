// SPDX-License-Identifier: Apache-2.0
#include "server/fetch/public_address.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <cstring>
#include <string>

namespace mpsd::fetch {
namespace {

sockaddr_storage Address(const std::string& text) {
  sockaddr_storage storage{};
  auto* v4 = reinterpret_cast<sockaddr_in*>(&storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&storage);
  if (inet_pton(AF_INET, text.c_str(), &v4->sin_addr) == 1) {
    storage.ss_family = AF_INET;
  } else if (inet_pton(AF_INET6, text.c_str(), &v6->sin6_addr) == 1) {
    storage.ss_family = AF_INET6;
  } else {
    ADD_FAILURE() << text << " is no address";
  }
  return storage;
}

bool IsPublic(const std::string& text) {
  const sockaddr_storage storage = Address(text);
  return IsPublicAddress(reinterpret_cast<const sockaddr&>(storage));
}

TEST(IsPublicAddress, HoldsEachBlockToItsEdges) {
  for (const char* text :
       {"0.0.0.0",         "0.255.255.255",   "10.0.0.0",
        "10.255.255.255",  "100.64.0.0",      "100.127.255.255",
        "127.0.0.1",       "127.255.255.255", "169.254.0.1",
        "169.254.169.254", "172.16.0.0",      "172.31.255.255",
        "192.0.0.1",       "192.0.2.1",       "192.88.99.1",
        "192.168.0.0",     "192.168.255.255", "198.18.0.0",
        "198.19.255.255",  "198.51.100.9",    "203.0.113.9",
        "224.0.0.1",       "239.255.255.255", "240.0.0.1",
        "255.255.255.255"}) {
    EXPECT_FALSE(IsPublic(text)) << text;
  }
  for (const char* text :
       {"1.0.0.0", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0",
        "126.255.255.255", "128.0.0.0", "169.253.255.255", "169.255.0.0",
        "172.15.255.255", "172.32.0.0", "192.0.1.0", "192.0.3.0", "192.167.1.1",
        "192.169.0.0", "198.17.255.255", "198.20.0.0", "203.0.114.0",
        "223.255.255.255"}) {
    EXPECT_TRUE(IsPublic(text)) << text;
  }
}

TEST(IsPublicAddress, KnowsThoseOfIpv6) {
  for (const char* text :
       {"::", "::1", "::2", "fe80::1", "febf::1", "fec0::1", "fc00::1",
        "fd12:3456::1", "ff02::1", "100::1", "2001::1", "2001:1ff::1",
        "2001:db8::1", "3fff::1", "64:ff9b:1::1", "4000::1"}) {
    EXPECT_FALSE(IsPublic(text)) << text;
  }
  for (const char* text :
       {"2001:200::1", "2600::1", "2a00:1450:4001::200e", "2620:fe::fe"}) {
    EXPECT_TRUE(IsPublic(text)) << text;
  }
}

TEST(IsPublicAddress, SeesTheIpv4AddressWithinAnIpv6Address) {
  for (const char* text :
       {"::ffff:127.0.0.1", "::ffff:10.1.2.3", "::ffff:169.254.169.254",
        "64:ff9b::192.168.0.1", "64:ff9b::127.0.0.1",
        "2002:7f00:1::", "2002:c0a8:1::1", "::127.0.0.1"}) {
    EXPECT_FALSE(IsPublic(text)) << text;
  }
  for (const char* text :
       {"::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1"}) {
    EXPECT_TRUE(IsPublic(text)) << text;
  }
}

TEST(IsPublicAddress, NoOtherFamilyIsPublic) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  EXPECT_FALSE(IsPublicAddress(reinterpret_cast<const sockaddr&>(address)));
}

TEST(AddressText, IsThatOfPeople) {
  for (const char* text : {"127.0.0.1", "fe80::1"}) {
    const sockaddr_storage storage = Address(text);
    EXPECT_EQ(AddressText(reinterpret_cast<const sockaddr&>(storage)), text);
  }
}

}  // namespace
}  // namespace mpsd::fetch
