// SPDX-License-Identifier: Apache-2.0
#include "server/fetch/url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace mpsd::fetch {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(ParseUrl, TellsWhoIsAsked) {
  const Url url = ParseUrl("HTTPS://Hub.Example/api/x?y=z#part").value();
  EXPECT_EQ(url.scheme, "https");
  EXPECT_EQ(url.host, "hub.example");
  EXPECT_EQ(url.port, 443);
  EXPECT_FALSE(url.has_credentials);
  EXPECT_THAT(url.text, testing::EndsWith("/api/x?y=z"));
  EXPECT_EQ(ParseUrl("http://127.0.0.1:8080/").value().port, 8080);
  EXPECT_EQ(ParseUrl("http://[::1]:9/x").value().host, "[::1]");
  EXPECT_TRUE(ParseUrl("https://u:p@example.com").value().has_credentials);
}

TEST(ParseUrl, RefusesWhatIsNoneWithoutRepeatingIt) {
  for (const char* text :
       {"", "example.com/s3cret", "file:///etc/passwd", "ftp://example.com",
        "https://", "http://a\nb/s3cret", "http:// space/",
        "https://example.com:port/", "gopher://x/"}) {
    const auto url = ParseUrl(text);
    EXPECT_FALSE(url.ok()) << text;
    EXPECT_THAT(std::string(url.status().message()), HasSubstr("expected"));
    EXPECT_THAT(std::string(url.status().message()), Not(HasSubstr("s3cret")));
  }
  EXPECT_FALSE(ParseUrl(std::string("http://a\0b", 10)).ok());
}

// libcurl reads numbers as inet_aton does; the host that is compared is the one
// that is asked.
TEST(ParseUrl, AnAddressInDisguiseIsItself) {
  EXPECT_EQ(ParseUrl("http://0x7f.1/").value().host, "127.0.0.1");
  EXPECT_EQ(ParseUrl("http://2130706433/").value().host, "127.0.0.1");
}

TEST(Redirected, LeadsElsewhereOrOn) {
  const Url from = ParseUrl("https://hub.example/a/b?c").value();
  EXPECT_EQ(Redirected(from, "/x/y").value().text, "https://hub.example/x/y");
  EXPECT_EQ(Redirected(from, "x").value().text, "https://hub.example/a/x");
  EXPECT_EQ(Redirected(from, "//cdn.example/x").value().host, "cdn.example");
  EXPECT_EQ(Redirected(from, "http://hub.example/x").value().scheme, "http");
  for (const char* location :
       {"file:///etc/passwd", "dict://127.0.0.1:11211/", "http://"}) {
    EXPECT_FALSE(Redirected(from, location).ok()) << location;
  }
}

TEST(Url, TheSameServerHasSchemeHostAndPortInCommon) {
  const Url url = ParseUrl("https://hub.example/a").value();
  EXPECT_TRUE(url.SameServer(ParseUrl("https://HUB.example:443/b").value()));
  for (const char* other :
       {"http://hub.example/a", "https://hub.example:444/a",
        "https://cdn.hub.example/a", "https://hub.example.evil.example/a"}) {
    EXPECT_FALSE(url.SameServer(ParseUrl(other).value())) << other;
  }
}

TEST(IsLoopback, KnowsThisMachine) {
  for (const char* text :
       {"http://localhost:1", "http://127.0.0.1", "http://[::1]/"}) {
    EXPECT_TRUE(IsLoopback(ParseUrl(text).value())) << text;
  }
  for (const char* text : {"http://10.0.0.1", "http://localhost.example",
                           "http://127.example.com.evil"}) {
    EXPECT_FALSE(IsLoopback(ParseUrl(text).value())) << text;
  }
}

TEST(Escaped, LeavesNothingThatDividesAPath) {
  EXPECT_EQ(Escaped("refs/pr/1"), "refs%2Fpr%2F1");
  EXPECT_EQ(Escaped("a-b._~Z9"), "a-b._~Z9");
  EXPECT_EQ(Escaped("?#% \n\xc3\xa4"), "%3F%23%25%20%0A%C3%A4");
}

}  // namespace
}  // namespace mpsd::fetch
