// SPDX-License-Identifier: Apache-2.0
#include "server/http/token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/base/limits.h"
#include "tests/core/scratch_folder.h"

namespace mpsd::http {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

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

}  // namespace
}  // namespace mpsd::http
