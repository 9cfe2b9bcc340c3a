// SPDX-License-Identifier: Apache-2.0
#include "client/token.h"

#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

// 2026-01-02 03:04:05 UTC.
constexpr int64_t kNow = 1767323045;
const absl::Time kToday = absl::FromUnixSeconds(kNow);

class TokenTextTest : public testing::Test {
 protected:
  TokenView View(bool json = false, int columns = 0) {
    return {out_, err_, json, columns, kToday, absl::UTCTimeZone()};
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
            "Made token 0a1b2c3d4e5f of ann, with the role user. It expires on "
            "2026-04-02 03:04, in 90 days.\n"
            "It cannot be shown again: mpsd keeps only its SHA-256. Give it to "
            "ann in a way\n"
            "that others cannot read, such as a password manager; it is typed "
            "or piped into\n"
            "  mpsctl login HOST:PORT\n"
            "Revoke a token that others may have seen:\n"
            "  mpsctl token revoke 0a1b2c3d4e5f\n");
}

TEST_F(TokenTextTest, AsJsonTheOutputIsOneObject) {
  v1::CreateTokenResponse made;
  made.set_secret("mpsd_secret");
  *made.mutable_token() = Token("0a1b2c3d4e5f");
  PrintCreated(View(/*json=*/true), made);
  const auto json = ParseJson(out_.str());
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
  EXPECT_EQ(ParseJson(line)["id"], "000000000001");
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_EQ(ParseJson(line)["last_use_time"], nullptr);
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

absl::StatusOr<std::optional<absl::Time>> Parse(
    const std::string& text, absl::TimeZone zone = absl::UTCTimeZone()) {
  return ParseExpiry(text, kToday, zone);
}

TEST(ExpiryTest, ASpanADayOrNever) {
  EXPECT_EQ(**Parse("90d"), kToday + absl::Hours(90 * 24));
  EXPECT_EQ(**Parse("12h"), kToday + absl::Hours(12));
  EXPECT_EQ(**Parse("2w"), kToday + absl::Hours(14 * 24));
  EXPECT_EQ(**Parse("1h"), kToday + absl::Hours(1));
  EXPECT_EQ(**Parse("36500d"), kToday + absl::Hours(36500 * 24));
  EXPECT_EQ(**Parse("2026-01-02"), absl::FromUnixSeconds(1767398400));
  EXPECT_EQ(**Parse("2027-01-31"),
            absl::FromCivil(absl::CivilDay(2027, 2, 1), absl::UTCTimeZone()));
  // In Kiritimati the day has begun fourteen hours earlier.
  const absl::TimeZone zone = absl::FixedTimeZone(14 * 3600);
  EXPECT_EQ(**Parse("2027-01-31", zone),
            **Parse("2027-01-31") - absl::Hours(14));
  EXPECT_EQ(*Parse("never"), std::nullopt);
}

TEST(ExpiryTest, WhatIsNoTimeIsRefusedWithWhatIs) {
  Args bad = {"99999999999999999999d", "٩٠d"};
  for (const char* text :
       {"",           "d",          "90",         "90 d",
        " 90d",       "90D",        "-1d",        "+1d",
        "0d",         "0h",         "1.5d",       "90m",
        "90s",        "90days",     "1e3d",       "0x9d",
        "tomorrow",   "Never",      "2027-1-31",  "2027-02-30",
        "2027-13-01", "2027/01/31", "31-01-2027", "2027-01-31T12:00",
        "\x1b[2J"}) {
    bad.push_back(text);
  }
  for (const std::string& text : bad) {
    const auto parsed = Parse(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_THAT(std::string(parsed.status().message()),
                AllOf(HasSubstr("90d, 12h or 2w"), Not(HasSubstr("\x1b"))))
        << text;
  }
}

TEST(ExpiryTest, WhatIsOverAndWhatIsTooFarIsRefused) {
  EXPECT_THAT(std::string(Parse("2026-01-01").status().message()),
              HasSubstr("is over"));
  for (const char* text :
       {"36501d", "876001h", "9223372036854775807d", "9223372036854775807w"}) {
    EXPECT_THAT(std::string(Parse(text).status().message()),
                HasSubstr("use never instead"))
        << text;
  }
}

using TokenTest = ClientTest;

TEST_F(TokenTest, CreateAsksAndPrintsTheSecretAlone) {
  EXPECT_THAT(
      RunVerb({"token", "create", "--user", "ann", "--role", "user",
               "--expires", "12h", "--note", "laptop"}),
      Ends(0, "mpsd_secret\n", HasSubstr("mpsctl token revoke 0a1b2c3d4e5f")));
  const v1::CreateTokenRequest& asked = Only(data().tokens_asked);
  EXPECT_EQ(asked.user(), "ann");
  EXPECT_EQ(asked.role(), v1::ROLE_USER);
  EXPECT_EQ(asked.note(), "laptop");
  EXPECT_EQ(asked.expire_time().seconds(),
            absl::ToUnixSeconds(kToday + absl::Hours(12)));
}

TEST_F(TokenTest, ATokenLivesNinetyDaysUnlessAsked) {
  RunVerb({"token", "create", "--user", "ann", "--role", "viewer"});
  RunVerb({"token", "create", "--user", "ann", "--role", "admin", "--expires",
           "never"});
  ASSERT_THAT(data().tokens_asked, SizeIs(2));
  EXPECT_EQ(data().tokens_asked[0].role(), v1::ROLE_VIEWER);
  EXPECT_EQ(data().tokens_asked[0].note(), "");
  EXPECT_EQ(data().tokens_asked[0].expire_time().seconds(),
            absl::ToUnixSeconds(kToday + absl::Hours(24 * 90)));
  EXPECT_EQ(data().tokens_asked[1].role(), v1::ROLE_ADMIN);
  EXPECT_FALSE(data().tokens_asked[1].has_expire_time());
  EXPECT_THAT(RunVerb({"token", "create", "--user", "a", "--role", "user",
                       "--expires", "x"})
                  .err,
              HasSubstr("--expires: 'x' is not a time"));
}

TEST_F(TokenTest, JsonMayBeAskedForBehindTheVerb) {
  const Result made =
      RunVerb({"token", "create", "--user", "a", "--role", "admin", "--json"});
  EXPECT_EQ(ParseJson(made.out)["secret"], "mpsd_secret");
  const Result list = RunVerb({"token", "list", "--json"});
  EXPECT_EQ(ParseJson(list.out)["id"], "0a1b2c3d4e5f");
}

TEST_F(TokenTest, WhatIsWrongIsNotAsked) {
  for (const Args& args : std::vector<std::vector<std::string>>{
           {"token"},
           {"token", "create"},
           {"token", "create", "--user", "a"},
           {"token", "create", "--role", "user"},
           {"token", "create", "--user", "a", "--role", "god"},
           {"token", "create", "--user", "a", "--role", ""},
           {"token", "create", "--user", "a", "--role", "Admin"},
           {"token", "create", "--user", "a", "--role", "unspecified"},
           {"token", "create", "--user", "a", "--role", "3"},
           {"token", "create", "--user", "a", "--role", "user", "--expires",
            "soon"},
           {"token", "revoke"},
           {"token", "list", "more"},
           {"token", "lend"}}) {
    EXPECT_THAT(RunVerb(args), Ends(2, IsEmpty()));
  }
  EXPECT_THAT(data().tokens_asked, IsEmpty());
}

TEST_F(TokenTest, ListAndRevoke) {
  RunVerb({"token", "create", "--user", "ann", "--role", "user"});
  EXPECT_THAT(RunVerb({"token", "list"}).out,
              HasSubstr("0a1b2c3d4e5f  ann   user"));
  EXPECT_THAT(
      RunVerb({"token", "revoke", "0a1b2c3d4e5f"}),
      Prints("Token 0a1b2c3d4e5f is revoked; 2 open streams of it ended.\n"));
  EXPECT_THAT(
      RunVerb({"token", "revoke", "0a1b2c3d4e5f", "ffffffffffff"}),
      Fails(4, AllOf(HasSubstr("mpsctl token list"), Not(HasSubstr("jobs")))));
}

TEST_F(TokenTest, ATokenGivenForItsIdLeavesNoTrace) {
  EXPECT_THAT(
      RunVerb({"token", "revoke", "mpsd_secret"}),
      Fails(2, AllOf(HasSubstr("not its id"), Not(HasSubstr("mpsd_secret")))));
  Fail("CreateToken", StatusCode::PERMISSION_DENIED, "needs the role admin");
  EXPECT_THAT(
      RunVerb({"token", "create", "--user", "a", "--role", "admin"}),
      Ends(testing::Ne(0), IsEmpty(), HasSubstr("needs the role admin")));
}

}  // namespace
}  // namespace mpsd::client
