// SPDX-License-Identifier: Apache-2.0
#include "core/base/api_token.h"

#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <string>

namespace mpsd::base {
namespace {

std::string Secret(char byte) {
  return std::string(kApiTokenSecretBytes, byte);
}

TEST(ApiTokenTest, HasTheFormThatProgramsLookingForSecretsSearch) {
  const std::regex form("mpsd_[0-9A-Za-z]{49}");
  for (const char byte : {'\0', '\1', 'a', '\x7f', '\xff'}) {
    const std::string token = ApiToken(Secret(byte));
    EXPECT_TRUE(std::regex_match(token, form)) << token;
    EXPECT_TRUE(IsApiToken(token)) << token;
  }
}

// Clients of other versions and scanners of other firms know the form, so it
// never changes. The numbers were computed by Python's int.from_bytes, divmod
// and hashlib.
TEST(ApiTokenTest, TheTextOfASecretNeverChanges) {
  EXPECT_EQ(ApiToken(Secret('\0')),
            "mpsd_00000000000000000000000000000000000000000003sRgrm");
  EXPECT_EQ(ApiToken(Secret('\xff')),
            "mpsd_yhjskwdA6OZ1AL1YmHWZWm8LLG7HjnuCA2j5rOw8Xp10fOgdu");
  EXPECT_EQ(ApiToken("abcdefghijklmnopqrstuvwxyz012345"),
            "mpsd_N5koW5aQRRhHl032GjJee5cYPJdrcgBh8hjV9gRy7iX2pmQpa");
}

TEST(ApiTokenTest, EachBitOfTheSecretIsInTheText) {
  std::set<std::string> tokens = {ApiToken(Secret('\0'))};
  for (size_t bit = 0; bit < kApiTokenSecretBytes * 8; ++bit) {
    std::string secret = Secret('\0');
    secret[bit / 8] = static_cast<char>(1 << bit % 8);
    tokens.insert(ApiToken(secret));
  }
  EXPECT_EQ(tokens.size(), 257u);
}

TEST(ApiTokenTest, AMistypedTokenIsNone) {
  const std::string token = ApiToken("abcdefghijklmnopqrstuvwxyz012345");
  for (size_t i = 0; i < token.size(); ++i) {
    std::string mistyped = token;
    mistyped[i] = mistyped[i] == 'x' ? 'y' : 'x';
    EXPECT_FALSE(IsApiToken(mistyped)) << mistyped;
    if (i == 0) continue;
    std::string swapped = token;
    std::swap(swapped[i - 1], swapped[i]);
    EXPECT_EQ(IsApiToken(swapped), swapped == token) << swapped;
    EXPECT_FALSE(IsApiToken(token.substr(0, i))) << i;
  }
}

TEST(ApiTokenTest, OtherCaseSpacesAndLineBreaksMakeItAnother) {
  const std::string token = ApiToken(Secret('k'));
  std::string upper = token, lower = token;
  for (char& c : upper) c = static_cast<char>(toupper(c));
  for (char& c : lower) c = static_cast<char>(tolower(c));
  for (const std::string& text :
       {upper, lower, token + "\n", token + "\r\n", " " + token, token + " ",
        token + '\0', token + token, std::string(), std::string("mpsd_"),
        "MPSD" + token.substr(4), std::string(54, '\xff'),
        std::string(1 << 20, 'a')}) {
    EXPECT_FALSE(IsApiToken(text)) << text.substr(0, 80);
  }
}

}  // namespace
}  // namespace mpsd::base
