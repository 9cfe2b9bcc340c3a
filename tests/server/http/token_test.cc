// SPDX-License-Identifier: Apache-2.0
#include "server/http/token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/base/limits.h"
#include "server/http/target.h"
#include "tests/core/scratch_folder.h"

namespace mpsd::http {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Pair;

absl::StatusOr<std::string> Read(const std::string& text) {
  const fs::path path = testing_support::FreshFolder("token") / "token";
  std::ofstream(path) << text;
  fs::permissions(path, fs::perms::owner_read | fs::perms::group_read);
  return ReadTokenFile(path);
}

TEST(ReadTokenFile, TakesOneLine) {
  const std::string token(limits::kLeastTokenBytes, 'x');
  for (const char* end : {"", "\n", "\r\n"}) {
    const auto read = Read(token + end);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, token);
  }
  EXPECT_TRUE(Read(std::string(limits::kTokenBytes, 'x') + "\r\n").ok());
  EXPECT_TRUE(Read("AZaz09-._~+/aaaa==").ok());
}

TEST(ReadTokenFile, RefusesWhatIsNoTokenWithoutQuotingIt) {
  const std::string secret(limits::kLeastTokenBytes, 'x');
  for (const std::string& text :
       {std::string(), secret.substr(1), secret + "\n" + secret,
        secret + " " + secret, "\xc3\xa4" + secret, secret + '\0',
        std::string(limits::kTokenBytes + 1, 'x')}) {
    const absl::Status status = Read(text).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("openssl rand -hex 32"));
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("xxxx")));
  }
}

TEST(HasToken, IsTrueForThatTokenAlone) {
  const std::string token = "0123456789abcdef";
  EXPECT_TRUE(HasToken("Bearer " + token, token));
  EXPECT_TRUE(HasToken("bearer " + token, token));
  for (const std::string& wrong : std::vector<std::string>{
           "", "Bearer", "Bearer ", token, "Bearer " + token + "0",
           "Bearer " + token.substr(1), "Bearer  " + token,
           "Bearer " + token + " ", "Basic " + token,
           "Bearer 0123456789ABCDEF"}) {
    EXPECT_FALSE(HasToken(wrong, token)) << wrong;
  }
}

TEST(ParseTarget, ReadsPathAndQueryAndRefusesWhatIsNone) {
  const auto target =
      ParseTarget("/api//jobs/a%2Fb%20c+d?states=X&states=Y&o=a+b%26%3D&flag");
  ASSERT_TRUE(target.ok()) << target.status();
  EXPECT_THAT(target->path, ElementsAre("api", "jobs", "a/b c+d"));
  EXPECT_THAT(target->query,
              ElementsAre(Pair("states", "X"), Pair("states", "Y"),
                          Pair("o", "a b&="), Pair("flag", "")));
  EXPECT_THAT(ParseTarget("/")->path, IsEmpty());
  EXPECT_THAT(ParseTarget("/?")->query, IsEmpty());
  for (const char* text :
       {"", "*", "http://host/", "jobs", "/%", "/%4", "/%zz", "/%+1", "/%00",
        "/a%0ab", "/?a=%1f", "/?%7f=a", "/%-1"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseTarget(text).status())) << text;
  }
}

}  // namespace
}  // namespace mpsd::http
