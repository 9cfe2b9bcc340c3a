// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/pki.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/limits.h"

namespace mpsd::pki {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(HostNamesTest, ANameHasOneSpelling) {
  const struct {
    std::string text, name;
    bool address;
  } cases[] = {
      {"Studio", "studio", false},
      {"studio.example.com.", "studio.example.com", false},
      {"my_host-2.LAN", "my_host-2.lan", false},
      {"xn--mnchen-3ya.de", "xn--mnchen-3ya.de", false},
      {"192.168.1.20", "192.168.1.20", true},
      {"2001:DB8:0::1", "2001:db8::1", true},
      {"[::1]", "::1", true},
      {std::string(63, 'a'), std::string(63, 'a'), false},
  };
  for (const auto& c : cases) {
    const auto name = ParseHostName(c.text);
    ASSERT_TRUE(name.ok()) << c.text << ": " << name.status();
    EXPECT_EQ(*name, c.name);
    EXPECT_EQ(IsAddress(*name), c.address) << c.text;
  }
}

TEST(HostNamesTest, WhatIsNoNameIsRefusedAndSaysWhy) {
  const std::string letters(63, 'a');
  const std::string too_long =
      letters + "." + letters + "." + letters + "." + letters;
  const struct {
    std::string text, hint;
  } cases[] = {{"", "expected"},
               {".", "expected"},
               {"a..b", "expected"},
               {"-a", "expected"},
               {"a-", "expected"},
               {"a b", "expected"},
               {"a/b", "expected"},
               {"a\nDNS:evil", "expected"},
               {std::string("a\0b", 3), "expected"},
               {std::string("127.0.0.1\0.evil", 15), "expected"},
               {"münchen.de", "xn--"},
               {"*.example.com", "no wildcard"},
               {"studio:7433", "no port"},
               {"[::1]:7433", "no port"},
               {"fe80::1%en0", "zone"},
               {"10.0.0.256", "expected"},
               {"127.1", "expected"},
               {letters + "a", "expected"},
               {too_long, "expected"},
               {std::string(1 << 20, 'a'), "expected"}};
  for (const auto& c : cases) {
    const absl::Status status = ParseHostName(c.text).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << c.text.substr(0, 80);
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.hint));
    EXPECT_LT(status.message().size(), 400u);
  }
}

TEST(HostNamesTest, AServerHasItsNamesThenItsAddresses) {
  const auto names =
      ServerNames({"Studio.example.com", {"192.168.1.20", "2001:db8::20"}},
                  {"gpu.example.com", "192.168.1.20"});
  ASSERT_TRUE(names.ok()) << names.status();
  EXPECT_THAT(*names,
              ElementsAre("gpu.example.com", "192.168.1.20",
                          "studio.example.com", "studio", "studio.local",
                          "localhost", "127.0.0.1", "::1", "2001:db8::20"));
}

TEST(HostNamesTest, AHostNameThatCannotBeOneIsLeftOut) {
  for (const char* name : {"", "my host", "10.0.0.1", "localhost"}) {
    const auto names = ServerNames({name, {}}, {});
    ASSERT_TRUE(names.ok()) << names.status();
    EXPECT_THAT(*names, ElementsAre("localhost", "127.0.0.1", "::1")) << name;
  }
}

TEST(HostNamesTest, AddressesFillTheRoomThatNamesLeave) {
  Machine machine{"studio", {}};
  for (int i = 0; i < 100; ++i) {
    machine.addresses.push_back("10.0.0." + std::to_string(i));
  }
  const auto names = ServerNames(machine, {});
  ASSERT_TRUE(names.ok()) << names.status();
  EXPECT_EQ(names->size(), limits::kHostNames);
  EXPECT_EQ(names->back(), "10.0.0.58");
}

TEST(HostNamesTest, AsManyNamesAsACertificateHolds) {
  std::vector<std::string> given;
  while (given.size() < limits::kHostNames - 5) {
    given.push_back("a" + std::to_string(given.size()));
  }
  EXPECT_TRUE(ServerNames({"studio", {"10.0.0.1"}}, given).ok());
  given.push_back("one-more");
  const absl::Status status = ServerNames({"studio", {}}, given).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("at most 64"));
}

TEST(HostNamesTest, ThisMachineHasANameAndAddressesThatCertificatesHold) {
  const Machine machine = ThisMachine();
  EXPECT_FALSE(machine.host_name.empty());
  for (const std::string& address : machine.addresses) {
    EXPECT_TRUE(IsAddress(address)) << address;
    EXPECT_THAT(address, testing::Not(testing::StartsWith("fe80:")));
    EXPECT_NE(address, "127.0.0.1");
  }
}

}  // namespace
}  // namespace mpsd::pki
