// SPDX-License-Identifier: Apache-2.0
#include "client/token/token_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <vector>

#include "core/base/api_token.h"

namespace mpsd::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const absl::Time kNow = absl::FromUnixSeconds(1767323045);

// False where the command line is wrong.
bool Parse(std::vector<std::string> args, TokenOptions* options) {
  CLI::App app;
  AddTokenVerbs(app, options);
  std::reverse(args.begin(), args.end());
  try {
    app.parse(args);
  } catch (const CLI::ParseError&) {
    return false;
  }
  return true;
}

TEST(TokenOptionsTest, CreateAsksForNinetyDaysUnlessItIsTold) {
  TokenOptions options;
  ASSERT_TRUE(Parse({"create", "--user", "ann", "--role", "viewer"}, &options));
  EXPECT_EQ(options.verb, TokenOptions::Verb::kCreate);
  const auto request = CreateRequest(options, kNow, absl::UTCTimeZone());
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->user(), "ann");
  EXPECT_EQ(request->role(), v1::ROLE_VIEWER);
  EXPECT_EQ(request->note(), "");
  EXPECT_EQ(request->expire_time().seconds(), 1767323045 + 90 * 86400);
}

TEST(TokenOptionsTest, EveryOptionIsAsked) {
  TokenOptions options;
  ASSERT_TRUE(Parse({"create", "--user", "ann", "--role", "admin", "--expires",
                     "never", "--note", "laptop"},
                    &options));
  const auto request = CreateRequest(options, kNow, absl::UTCTimeZone());
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->role(), v1::ROLE_ADMIN);
  EXPECT_EQ(request->note(), "laptop");
  EXPECT_FALSE(request->has_expire_time());
}

TEST(TokenOptionsTest, AnExpiryThatIsNoneNamesTheOption) {
  TokenOptions options;
  ASSERT_TRUE(Parse(
      {"create", "--user", "a", "--role", "user", "--expires", "x"}, &options));
  const auto request = CreateRequest(options, kNow, absl::UTCTimeZone());
  EXPECT_THAT(std::string(request.status().message()),
              HasSubstr("--expires: 'x' is no time"));
}

TEST(TokenOptionsTest, UserAndRoleAreNeverGuessed) {
  TokenOptions options;
  EXPECT_FALSE(Parse({"create", "--user", "ann"}, &options));
  EXPECT_FALSE(Parse({"create", "--role", "user"}, &options));
  for (const char* role : {"", "root", "Admin", "unspecified", "3"}) {
    EXPECT_FALSE(Parse({"create", "--user", "a", "--role", role}, &options));
  }
  EXPECT_FALSE(Parse({}, &options));
  EXPECT_FALSE(Parse({"revoke"}, &options));
  EXPECT_FALSE(Parse({"list", "more"}, &options));
}

TEST(TokenOptionsTest, ListAndRevoke) {
  TokenOptions options;
  ASSERT_TRUE(Parse({"list"}, &options));
  EXPECT_EQ(options.verb, TokenOptions::Verb::kList);
  ASSERT_TRUE(Parse({"revoke", "0a1b2c3d4e5f", "ffffffffffff"}, &options));
  EXPECT_EQ(options.verb, TokenOptions::Verb::kRevoke);
  EXPECT_THAT(options.ids, ElementsAre("0a1b2c3d4e5f", "ffffffffffff"));
  EXPECT_TRUE(CheckTokenIds(options).ok());
}

TEST(TokenOptionsTest, ATokenInThePlaceOfItsIdIsNotQuoted) {
  TokenOptions options;
  const std::string token =
      base::ApiToken(std::string(base::kApiTokenSecretBytes, 'k'));
  ASSERT_TRUE(Parse({"revoke", token}, &options));
  const absl::Status checked = CheckTokenIds(options);
  EXPECT_TRUE(absl::IsInvalidArgument(checked));
  EXPECT_THAT(std::string(checked.message()), HasSubstr("not its id"));
  EXPECT_THAT(std::string(checked.message()), Not(HasSubstr(token.substr(9))));
}

}  // namespace
}  // namespace mpsd::client
