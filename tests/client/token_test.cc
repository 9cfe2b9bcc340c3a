// SPDX-License-Identifier: Apache-2.0
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

using TokenTest = ClientTest;

TEST_F(TokenTest, CreateAsksAndPrintsTheSecretAlone) {
  const Result made = RunVerb({"token", "create", "--user", "ann", "--role",
                               "user", "--expires", "12h", "--note", "laptop"});
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_EQ(made.out, "mpsd_secret\n");
  EXPECT_THAT(made.err, HasSubstr("mpsctl token revoke 0a1b2c3d4e5f"));
  ASSERT_THAT(data().tokens_asked, SizeIs(1));
  const v1::CreateTokenRequest& asked = data().tokens_asked[0];
  EXPECT_EQ(asked.user(), "ann");
  EXPECT_EQ(asked.role(), v1::ROLE_USER);
  EXPECT_EQ(asked.note(), "laptop");
  EXPECT_EQ(asked.expire_time().seconds(),
            absl::ToUnixSeconds(kNow + absl::Hours(12)));
}

TEST_F(TokenTest, ATokenLivesNinetyDaysUnlessAsked) {
  RunVerb({"token", "create", "--user", "ann", "--role", "viewer"});
  RunVerb({"token", "create", "--user", "ann", "--role", "admin", "--expires",
           "never"});
  ASSERT_THAT(data().tokens_asked, SizeIs(2));
  EXPECT_EQ(data().tokens_asked[0].role(), v1::ROLE_VIEWER);
  EXPECT_EQ(data().tokens_asked[0].note(), "");
  EXPECT_EQ(data().tokens_asked[0].expire_time().seconds(),
            absl::ToUnixSeconds(kNow + absl::Hours(24 * 90)));
  EXPECT_EQ(data().tokens_asked[1].role(), v1::ROLE_ADMIN);
  EXPECT_FALSE(data().tokens_asked[1].has_expire_time());
  EXPECT_THAT(RunVerb({"token", "create", "--user", "a", "--role", "user",
                       "--expires", "x"})
                  .err,
              HasSubstr("--expires: 'x' is no time"));
}

TEST_F(TokenTest, JsonMayBeAskedForBehindTheVerb) {
  const Result made =
      RunVerb({"token", "create", "--user", "a", "--role", "admin", "--json"});
  EXPECT_EQ(nlohmann::json::parse(made.out)["secret"], "mpsd_secret");
  const Result list = RunVerb({"token", "list", "--json"});
  EXPECT_EQ(nlohmann::json::parse(list.out)["id"], "0a1b2c3d4e5f");
}

TEST_F(TokenTest, WhatIsWrongIsNotAsked) {
  for (const std::vector<std::string>& args :
       std::vector<std::vector<std::string>>{
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
    const Result wrong = RunVerb(args);
    EXPECT_EQ(wrong.code, 2) << wrong.err;
    EXPECT_THAT(wrong.out, IsEmpty());
  }
  EXPECT_THAT(data().tokens_asked, IsEmpty());
}

TEST_F(TokenTest, ListAndRevoke) {
  RunVerb({"token", "create", "--user", "ann", "--role", "user"});
  EXPECT_THAT(RunVerb({"token", "list"}).out,
              HasSubstr("0a1b2c3d4e5f  ann   user"));
  const Result revoked = RunVerb({"token", "revoke", "0a1b2c3d4e5f"});
  EXPECT_EQ(revoked.code, 0) << revoked.err;
  EXPECT_EQ(revoked.out,
            "Token 0a1b2c3d4e5f is revoked; 2 open streams of it ended.\n");
  const Result again =
      RunVerb({"token", "revoke", "0a1b2c3d4e5f", "ffffffffffff"});
  EXPECT_EQ(again.code, 4);
  EXPECT_THAT(again.err, HasSubstr("mpsctl token list"));
  EXPECT_THAT(again.err, Not(HasSubstr("jobs")));
}

TEST_F(TokenTest, ATokenGivenForItsIdLeavesNoTrace) {
  const Result wrong = RunVerb({"token", "revoke", "mpsd_secret"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("not its id"));
  EXPECT_THAT(wrong.err, Not(HasSubstr("mpsd_secret")));
}

TEST_F(TokenTest, WhatTheDaemonRefusesIsTold) {
  data().fail["CreateToken"] = {grpc::StatusCode::PERMISSION_DENIED,
                                "needs the role admin"};
  const Result refused =
      RunVerb({"token", "create", "--user", "a", "--role", "admin"});
  EXPECT_NE(refused.code, 0);
  EXPECT_THAT(refused.out, IsEmpty());
  EXPECT_THAT(refused.err, HasSubstr("needs the role admin"));
}

}  // namespace
}  // namespace mpsd::client
