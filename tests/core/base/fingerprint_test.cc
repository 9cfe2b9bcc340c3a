// SPDX-License-Identifier: Apache-2.0
#include "core/base/fingerprint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace mpsd::base {
namespace {

// The SHA-256 of "abc", an example of FIPS 180-4.
constexpr char kSpelled[] =
    "SHA256:BA:78:16:BF:8F:01:CF:EA:41:41:40:DE:5D:AE:22:23:B0:03:61:A3:96:17:"
    "7A:9C:B4:10:FF:61:F2:00:15:AD";
constexpr char kDigits[] =
    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

TEST(FingerprintTest, IsSpelledAsOpensslDoes) {
  EXPECT_EQ(Fingerprint("abc"), kSpelled);
}

TEST(FingerprintTest, EveryCommonSpellingIsUnderstood) {
  const std::string spelled = kSpelled, digits = kDigits;
  const std::string pairs = spelled.substr(7);
  for (const std::string& text : {spelled, digits, pairs, "SHA256:" + digits,
                                  "sha256:" + digits, "  " + spelled + "\n"}) {
    const auto parsed = ParseFingerprint(text);
    ASSERT_TRUE(parsed.ok()) << text << ": " << parsed.status();
    EXPECT_EQ(*parsed, spelled) << text;
  }
}

TEST(FingerprintTest, AnythingElseIsRefused) {
  const std::string spelled = kSpelled, digits = kDigits;
  std::string spaced = spelled;
  spaced[9] = ' ';
  std::string shifted = spelled.substr(7);
  std::swap(shifted[2], shifted[3]);
  for (const std::string& text :
       {std::string(), std::string("SHA256:"), digits.substr(1), digits + "0",
        spelled + ":", spelled + ":00", spelled.substr(0, 98), spaced, shifted,
        "SHA1:" + digits, "SHA256:SHA256:" + digits, digits.substr(1) + "g",
        std::string(1 << 20, 'a'), std::string(95, ':')}) {
    const auto parsed = ParseFingerprint(text);
    EXPECT_FALSE(parsed.ok()) << text.substr(0, 200);
    EXPECT_LT(parsed.status().message().size(), 300u);
  }
}

}  // namespace
}  // namespace mpsd::base
