// SPDX-License-Identifier: Apache-2.0
#include "client/token/token_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

namespace mpsd::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// 2026-01-02 03:04:05 UTC.
constexpr int64_t kNow = 1767323045;

class TokenTextTest : public testing::Test {
 protected:
  TokenView View(bool json = false, int columns = 0) {
    return {out_,
            err_,
            json,
            columns,
            absl::FromUnixSeconds(kNow),
            absl::UTCTimeZone(),
            "mpsctl"};
  }
  static v1::Token Token(const std::string& id) {
    v1::Token token;
    token.set_id(id);
    token.set_user("ann");
    token.set_role(v1::ROLE_USER);
    token.set_created_by("root");
    token.mutable_create_time()->set_seconds(kNow - 3600);
    return token;
  }

  std::ostringstream out_, err_;
};

TEST_F(TokenTextTest, TheSecretAloneIsTheOutput) {
  v1::CreateTokenResponse made;
  made.set_secret("mpsd_secret");
  *made.mutable_token() = Token("0a1b2c3d4e5f");
  made.mutable_token()->mutable_expire_time()->set_seconds(kNow + 90 * 86400 -
                                                           1);
  PrintCreated(View(), made);
  EXPECT_EQ(out_.str(), "mpsd_secret\n");
  EXPECT_EQ(err_.str(),
            "Made token 0a1b2c3d4e5f of ann, with the role user. It expires "
            "on 2026-04-02 03:04, in 90 days.\n"
            "Nobody can show it again: mpsd keeps no more than its SHA-256. "
            "Hand it to ann in a way\n"
            "that others cannot read, as by a password manager; it is typed or "
            "piped into\n"
            "  mpsctl login HOST:PORT\n"
            "A token that others may have seen ends at once by\n"
            "  mpsctl token revoke 0a1b2c3d4e5f\n");
}

TEST_F(TokenTextTest, AsJsonTheOutputIsOneObject) {
  v1::CreateTokenResponse made;
  made.set_secret("mpsd_secret");
  *made.mutable_token() = Token("0a1b2c3d4e5f");
  PrintCreated(View(/*json=*/true), made);
  const auto json = nlohmann::json::parse(out_.str());
  EXPECT_EQ(json["secret"], "mpsd_secret");
  EXPECT_EQ(json["token"]["id"], "0a1b2c3d4e5f");
  EXPECT_EQ(json["token"]["role"], "USER");
  EXPECT_EQ(json["token"]["expire_time"], nullptr);
  EXPECT_THAT(err_.str(), HasSubstr("It never expires."));
  EXPECT_THAT(err_.str(), Not(HasSubstr("mpsd_secret")));
}

TEST_F(TokenTextTest, TheListTellsWhoseUntilWhenAndTheLastUse) {
  v1::ListTokensResponse list;
  *list.add_tokens() = Token("000000000001");
  list.mutable_tokens(0)->mutable_expire_time()->set_seconds(kNow + 86400 + 1);
  list.mutable_tokens(0)->mutable_last_use_time()->set_seconds(kNow - 5);
  list.mutable_tokens(0)->set_note("laptop");
  *list.add_tokens() = Token("000000000002");
  list.mutable_tokens(1)->mutable_expire_time()->set_seconds(kNow + 7200);
  *list.add_tokens() = Token("000000000003");
  list.mutable_tokens(2)->mutable_expire_time()->set_seconds(kNow);
  list.mutable_tokens(2)->set_role(v1::ROLE_ADMIN);
  *list.add_tokens() = Token("000000000004");
  list.mutable_tokens(3)->clear_created_by();
  PrintTokens(View(), list);
  EXPECT_EQ(out_.str(),
            "ID            USER  ROLE   CREATED           BY    "
            "EXPIRES                   LAST USE          NOTE\n"
            "000000000001  ann   user   2026-01-02 02:04  root  "
            "2026-01-03 03:04 (1 day)  2026-01-02 03:04  laptop\n"
            "000000000002  ann   user   2026-01-02 02:04  root  "
            "2026-01-02 05:04 (2h00m)  never             \n"
            "000000000003  ann   admin  2026-01-02 02:04  root  "
            "2026-01-02 03:04 EXPIRED  never             \n"
            "000000000004  ann   user   2026-01-02 02:04  -     "
            "never                     never             \n");
  EXPECT_EQ(err_.str(), "");
}

TEST_F(TokenTextTest, TheListAsJsonIsALineAToken) {
  v1::ListTokensResponse list;
  *list.add_tokens() = Token("000000000001");
  *list.add_tokens() = Token("000000000002");
  PrintTokens(View(/*json=*/true), list);
  std::istringstream lines(out_.str());
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_EQ(nlohmann::json::parse(line)["id"], "000000000001");
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_EQ(nlohmann::json::parse(line)["last_use_time"], nullptr);
  EXPECT_FALSE(std::getline(lines, line));
}

TEST_F(TokenTextTest, WithoutTokensItSaysHowToMakeOne) {
  PrintTokens(View(), {});
  EXPECT_THAT(out_.str(), HasSubstr("mpsctl token create --user NAME"));
  out_.str("");
  PrintTokens(View(/*json=*/true), {});
  EXPECT_EQ(out_.str(), "");
}

// A daemon may be of another version, or no mpsd at all.
TEST_F(TokenTextTest, WhatADaemonSaysCannotSteerTheTerminal) {
  v1::CreateTokenResponse made;
  v1::Token token = Token("\x1b[2J");
  token.set_user("\x1b]0;x\x07");
  token.set_note("two\nlines\x1b[1m");
  token.set_role(static_cast<v1::Role>(99));
  *made.mutable_token() = token;
  made.set_secret("\x1b[31m");
  PrintCreated(View(), made);
  v1::ListTokensResponse list;
  *list.add_tokens() = token;
  PrintTokens(View(), list);
  PrintRevoked(View(), "0a1b2c3d4e5f", {});
  EXPECT_THAT(out_.str() + err_.str(), Not(HasSubstr("\x1b")));
  EXPECT_THAT(out_.str() + err_.str(), Not(HasSubstr("\x07")));
}

TEST_F(TokenTextTest, ARevokedTokenTellsOfItsStreams) {
  v1::RevokeTokenResponse revoked;
  PrintRevoked(View(), "0a1b2c3d4e5f", revoked);
  EXPECT_EQ(out_.str(), "Token 0a1b2c3d4e5f is revoked.\n");
  out_.str("");
  revoked.set_ended_streams(1);
  PrintRevoked(View(), "0a1b2c3d4e5f", revoked);
  EXPECT_EQ(out_.str(),
            "Token 0a1b2c3d4e5f is revoked; 1 open stream of it ended.\n");
  out_.str("");
  revoked.set_ended_streams(2);
  PrintRevoked(View(/*json=*/true), "0a1b2c3d4e5f", revoked);
  EXPECT_EQ(out_.str(), "{\"id\":\"0a1b2c3d4e5f\",\"ended_streams\":2}\n");
}

}  // namespace
}  // namespace mpsd::client
