// SPDX-License-Identifier: Apache-2.0
#include "client/tls/host_port.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mpsd::client {
namespace {

using testing::HasSubstr;

TEST(HostPort, NamesAndAddresses) {
  for (const char* text : {"studio.local:7433", "127.0.0.1:1", "[::1]:65535",
                           "a_b-c:80", "STUDIO:7433"}) {
    const auto place = ParseHostPort(text);
    ASSERT_TRUE(place.ok()) << text;
    EXPECT_EQ(place->Text(), text);
  }
  EXPECT_EQ(ParseHostPort("[fe80::2]:7433")->host, "fe80::2");
  EXPECT_EQ(ParseHostPort("studio:07433")->Text(), "studio:7433");
}

TEST(HostPort, AnythingElseIsRefusedWithTheForm) {
  for (const std::string text : {"",
                                 "studio",
                                 "studio:",
                                 ":7433",
                                 "studio:0",
                                 "studio:65536",
                                 "studio:99999999999",
                                 "studio:-1",
                                 "studio: 1",
                                 "studio:+1",
                                 "::1:7433",
                                 "[::1]",
                                 "[studio]:1",
                                 "[]:1",
                                 "a/b:1",
                                 "a b:1",
                                 "-a:1",
                                 "dns:///a:1",
                                 "https://a:1",
                                 "a@b:1",
                                 "a\n:1"}) {
    const auto place = ParseHostPort(text);
    EXPECT_EQ(place.status().code(), absl::StatusCode::kInvalidArgument)
        << text;
    EXPECT_THAT(std::string(place.status().message()),
                HasSubstr("expected HOST:PORT, as in studio.local:7433"));
  }
  EXPECT_FALSE(ParseHostPort(std::string(300, 'a') + ":1").ok());
}

TEST(HostPort, QuotesNoControlCharacters) {
  const auto place = ParseHostPort("\x1b[2J\n:1");
  EXPECT_EQ(place.status().message().find('\x1b'), std::string::npos);
  EXPECT_EQ(place.status().message().find('\n'), std::string::npos);
}

TEST(HostPort, Loopback) {
  for (const char* host : {"localhost", "LocalHost", "127.0.0.1", "127.9.9.9",
                           "::1", "0:0:0:0:0:0:0:1"}) {
    EXPECT_TRUE(IsLoopback(host)) << host;
  }
  for (const char* host :
       {"", "localhost.evil.example", "127.0.0.1.evil.example", "127.evil",
        "10.0.0.1", "::2", "::", "0.0.0.0", "studio.local"}) {
    EXPECT_FALSE(IsLoopback(host)) << host;
  }
}

}  // namespace
}  // namespace mpsd::client
