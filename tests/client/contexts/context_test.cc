// SPDX-License-Identifier: Apache-2.0
#include "client/contexts/context.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "core/base/api_token.h"

namespace mpsd::client {
namespace {

using testing::HasSubstr;

const std::string kToken =
    base::ApiToken(std::string(base::kApiTokenSecretBytes, 's'));

TEST(ContextName, WhatMayBeAName) {
  for (const std::string& name : std::vector<std::string>{
           "studio", "studio.local", "4", "a_b-c", std::string(64, 'a')}) {
    EXPECT_TRUE(CheckContextName(name).ok()) << name;
  }
  for (const std::string& name :
       std::vector<std::string>{"", "Studio", "..", ".hidden", "-rf", "a/b",
                                "a b", "a\n", "é", std::string(65, 'a')}) {
    EXPECT_EQ(CheckContextName(name).code(), absl::StatusCode::kInvalidArgument)
        << name;
  }
  EXPECT_THAT(std::string(CheckContextName("local").message()),
              HasSubstr("this machine's own daemon"));
}

TEST(ContextName, OfAnyHostIsAName) {
  EXPECT_EQ(NameForHost("Studio.local"), "studio.local");
  EXPECT_EQ(NameForHost("10.0.0.7"), "10.0.0.7");
  EXPECT_EQ(NameForHost("fe80::2"), "fe80--2");
  EXPECT_EQ(NameForHost("::1"), "1");
  for (const std::string& host : std::vector<std::string>{
           "", "::", "local", "LOCAL", "_", "a/../b", "\x1b[2J",
           std::string(300, '.'), std::string(300, 'A')}) {
    EXPECT_TRUE(CheckContextName(NameForHost(host)).ok()) << host;
  }
}

TEST(Token, WhatCanBeSent) {
  EXPECT_TRUE(CheckToken(kToken).ok());
  std::string mistyped = kToken;
  mistyped[10] = mistyped[10] == 'a' ? 'b' : 'a';
  for (const std::string& token :
       {std::string(), std::string("mpsd_"), kToken + "\n", kToken + " ",
        kToken + "\r\nx: y", kToken + std::string(1, '\0'), mistyped}) {
    const absl::Status status = CheckToken(token);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    // An error may end in a log.
    EXPECT_EQ(status.message().find(kToken.substr(5, 5)), std::string::npos);
  }
}

TEST(ContextText, EveryMemberComesBack) {
  const Context context = {"studio",    "studio:7433", true,  "PEM\nPEM\n",
                           "/run/sock", "ann",         kToken};
  const auto read = FromText("studio", ToText(context));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, context);
  const Context bare = {"x", "localhost:1", false};
  EXPECT_EQ(FromText("x", ToText(bare)).value(), bare);
}

TEST(ContextText, BrokenTextsSayWhatWasExpected) {
  const std::string good = ToText({"x", "studio:7433", true});
  ASSERT_TRUE(FromText("x", good).ok());
  for (const auto& [text, why] :
       std::vector<std::pair<std::string, const char*>>{
           {"", "expected a JSON object"},
           {good.substr(0, good.size() / 2), "expected a JSON object"},
           {"[]", "expected a JSON object"},
           {std::string(100'000, '['), "expected a JSON object"},
           {"{}", "expected 'format', a number"},
           {R"({"format": 2})", "another release"},
           {R"({"format": 1, "server": 7})", "expected 'server', a text"},
           {R"({"format": 1, "server": "a:1"})", "expected 'tls'"},
           {R"({"format": 1, "tls": true})", "expected 'server', HOST:PORT"},
           {R"({"format": 1, "tls": true,
                "server": "a:1", "token": "mpsd_0123456789abcdef\n"})",
            "'token': this is no whole token"}}) {
    const auto context = FromText("x", text);
    EXPECT_EQ(context.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(context.status().message()), HasSubstr(why));
    EXPECT_EQ(context.status().message().find("mpsd_0"), std::string::npos);
  }
}

}  // namespace
}  // namespace mpsd::client
