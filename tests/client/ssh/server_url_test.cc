// SPDX-License-Identifier: Apache-2.0
#include "client/ssh/server_url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mpsd::ssh {
namespace {

using testing::HasSubstr;

ServerUrl Parsed(const std::string& text) {
  const auto url = ParseServerUrl(text);
  EXPECT_TRUE(url.ok()) << text << ": " << url.status();
  return url.value_or(ServerUrl());
}

TEST(ServerUrl, Parts) {
  const ServerUrl url =
      Parsed("ssh://ann@studio.local:2222/srv/mpsd/mpsd.sock");
  EXPECT_EQ(url.user, "ann");
  EXPECT_EQ(url.host, "studio.local");
  EXPECT_EQ(url.port, "2222");
  EXPECT_EQ(url.path, "/srv/mpsd/mpsd.sock");
}

TEST(ServerUrl, OnlyTheHostIsNeeded) {
  for (const char* text : {"ssh://studio", "SSH://studio", "ssh://studio/"}) {
    const ServerUrl url = Parsed(text);
    EXPECT_EQ(url.host, "studio") << text;
    EXPECT_EQ(url.user + url.port + url.path, "") << text;
  }
}

TEST(ServerUrl, AddressesOfVersionSix) {
  EXPECT_EQ(Parsed("ssh://[::1]").host, "::1");
  EXPECT_EQ(Parsed("ssh://[fe80::1%en0]:22").host, "fe80::1%en0");
  EXPECT_EQ(Parsed("ssh://[fe80::1%en0]:22").port, "22");
}

TEST(ServerUrl, TheLastAtSignEndsTheUser) {
  EXPECT_EQ(Parsed("ssh://ann@corp.example@studio").user, "ann@corp.example");
}

TEST(ServerUrl, PathsHaveSpaces) {
  const std::string path = "/Library/Application Support/mpsd";
  EXPECT_EQ(Parsed("ssh://mac/Library/Application%20Support/mpsd").path, path);
  EXPECT_EQ(Parsed("ssh://mac/Library/Application Support/mpsd").path, path);
  EXPECT_EQ(Parsed("ssh://mac/100%25/mpsd.sock").path, "/100%/mpsd.sock");
}

TEST(ServerUrl, NothingPassesForAnOptionOrAShellsWord) {
  for (const char* place : {"-oProxyCommand=touch x",
                            "-oProxyCommand=x",
                            "-",
                            "ann@-oX",
                            "-lroot@studio",
                            "stu;dio",
                            "$(id)",
                            "`id`",
                            "a b",
                            "a\nb",
                            "a'b",
                            "a|b",
                            "a&b",
                            "%h",
                            "a\\b",
                            "an;n@studio",
                            "$(id)@studio",
                            "ann studio@studio",
                            "\xc3\xa9",
                            "",
                            "@",
                            "ann@",
                            ":22",
                            "[]",
                            "[::1",
                            "[::1]x",
                            "[studio]",
                            "::1",
                            "[fe80::1%;id]",
                            "[-oX]"}) {
    const auto url = ParseServerUrl(std::string("ssh://") + place);
    EXPECT_EQ(url.status().code(), absl::StatusCode::kInvalidArgument) << place;
  }
}

TEST(ServerUrl, PortsThatAreNone) {
  for (const char* port :
       {"", "0", "65536", "-1", "+1", "22x", "99999999999"}) {
    const auto url = ParseServerUrl(std::string("ssh://studio:") + port);
    EXPECT_EQ(url.status().code(), absl::StatusCode::kInvalidArgument) << port;
  }
  EXPECT_EQ(Parsed("ssh://studio:65535").port, "65535");
}

TEST(ServerUrl, PathsThatAreNone) {
  for (const char* path : {"/%", "/%2", "/%zz", "/a%00b", "/a%0ab", "/a\nb"}) {
    const auto url = ParseServerUrl(std::string("ssh://studio") + path);
    EXPECT_EQ(url.status().code(), absl::StatusCode::kInvalidArgument) << path;
  }
  EXPECT_TRUE(ParseServerUrl("ssh://studio/" + std::string(1023, 'a')).ok());
  EXPECT_FALSE(ParseServerUrl("ssh://studio/" + std::string(1024, 'a')).ok());
}

TEST(ServerUrl, APasswordIsRefusedAndNotRepeated) {
  const auto url = ParseServerUrl("ssh://ann:secret@studio");
  EXPECT_THAT(std::string(url.status().message()),
              HasSubstr("a password does not belong there"));
  EXPECT_THAT(std::string(url.status().message()),
              testing::Not(HasSubstr("secret")));
}

TEST(ServerUrl, TheFormIsTold) {
  const std::string message(ParseServerUrl("ssh://a b").status().message());
  EXPECT_THAT(message, HasSubstr("ssh://[USER@]HOST[:PORT]"));
  EXPECT_FALSE(IsServerUrl("studio:22"));
  EXPECT_FALSE(ParseServerUrl("studio:22").ok());
}

}  // namespace
}  // namespace mpsd::ssh
