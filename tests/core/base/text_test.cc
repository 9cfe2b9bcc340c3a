// SPDX-License-Identifier: Apache-2.0
#include "core/base/text.h"

#include <gmock/gmock.h>

#include <cstdint>
#include <fstream>
#include <optional>
#include <regex>
#include <utility>
#include <vector>

#include "core/base/api_token.h"
#include "core/base/sha256.h"
#include "core/base/units.h"
#include "tests/core/scratch_folder.h"

namespace mpsd::base {
namespace {

struct Case {
  std::string text;
  std::string shown;
};

TEST(Printable, WritesOutWhatATerminalObeys) {
  const Case cases[] = {
      {"\x1b]0;PWNED\a\x1b[2J", "\\x1b]0;PWNED\\x07\\x1b[2J"},
      {"a\nb\rc\td", "a\\nb\\rc\\td"},
      {std::string("a\0b", 3), "a\\x00b"},
      {"\x7f", "\\x7f"},
      {"\xc2\x80 \xc2\x9b"
       "31m \xc2\x9f",
       "\\u0080 \\u009b31m \\u009f"},
      {"\xd8\x9c\xe2\x80\x8e\xe2\x80\x8f", "\\u061c\\u200e\\u200f"},
      {"\xe2\x80\xa8\xe2\x80\xa9", "\\u2028\\u2029"},
      {"\xe2\x80\xaa\xe2\x80\xae", "\\u202a\\u202e"},
      {"\xe2\x81\xa6\xe2\x81\xa9", "\\u2066\\u2069"},
  };
  for (const auto& [text, shown] : cases) {
    EXPECT_EQ(Printable(text), shown);
    EXPECT_FALSE(IsPrintable(text)) << shown;
    EXPECT_EQ(Printable(shown), shown) << "twice is once";
    EXPECT_TRUE(IsPrintable(shown)) << shown;
  }
}

TEST(IsBlank, IsTextOfWhichNothingIsSeen) {
  for (const char* blank :
       {"", " \t\n", "\u00a0\u3000", "\u200b\u200d", "\ufeff", "\u2800",
        "\u3164 \u2060", "\U000e0020"}) {
    EXPECT_TRUE(IsBlank(blank)) << Printable(blank);
  }
  for (const char* seen : {"a", " .", "\u00e4", "\u200b1", "\xff"}) {
    EXPECT_FALSE(IsBlank(seen)) << seen;
  }
}

TEST(Printable, WritesOutBytesThatAreNoUtf8) {
  EXPECT_EQ(Printable("a\xff"
                      "b"),
            "a\\xffb");
  EXPECT_EQ(Printable("cut \xe2\x82"), "cut \\xe2\\x82");
  EXPECT_EQ(Printable("\xc0\xaf"), "\\xc0\\xaf") << "overlong";
  EXPECT_EQ(Printable("\xe0\x80\xaf"), "\\xe0\\x80\\xaf") << "overlong";
  EXPECT_EQ(Printable("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "a surrogate";
  EXPECT_EQ(Printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80")
      << "beyond U+10FFFF";
}

TEST(Printable, LeavesTextAloneAndLinesWhereTheyMayStay) {
  for (const std::string text :
       {"", "plain", "ä € 😀", "C:\\new\\x1b", "\xc2\xa0\xe2\x80\x8d",
        "\xe2\x80\xa7\xe2\x80\xaf", "\xe2\x81\xa5\xe2\x81\xaa",
        "\xf4\x8f\xbf\xbf"}) {
    EXPECT_EQ(Printable(text), text);
    EXPECT_TRUE(IsPrintable(text)) << text;
  }
  EXPECT_EQ(Printable("a\n\tb\r\n\x1b", Breaks::kKeep), "a\n\tb\\r\n\\x1b");
  EXPECT_TRUE(IsPrintable("a\n\tb", Breaks::kKeep));
  EXPECT_FALSE(IsPrintable("a\r", Breaks::kKeep));
}

TEST(Shortened, CutsBetweenCharactersAsQuotableAndIndentedDo) {
  EXPECT_EQ(Shortened("12345", 5), "12345");
  EXPECT_EQ(Shortened("123456", 5), "12…");
  EXPECT_EQ(Shortened("a€€€", 9), "a€…") << "never within a character";
  EXPECT_EQ(Shortened("€€", 3), "…");
  EXPECT_EQ(Shortened("", 3), "");
  EXPECT_EQ(Quotable("a\nb"), "a\\nb");
  const std::string longest(limits::kQuotedBytes, 'x');
  EXPECT_EQ(Quotable(longest), longest);
  EXPECT_EQ(Quotable(longest + "x"),
            std::string(limits::kQuotedBytes - 3, 'x') + "…");
  EXPECT_EQ(Quotable(std::string(1 << 20, '\x1b')).size(),
            limits::kQuotedBytes);
  EXPECT_EQ(Indented("a\nb\n\nc"), "a\n    b\n    \n    c");
  EXPECT_EQ(Indented(""), "");
}

// By arithmetic: the shortest form of a code point that is no surrogate.
size_t Expected(uint32_t code) {
  if (code >= 0xD800 && code <= 0xDFFF) return 0;
  if (code > 0x10FFFF) return 0;
  return code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
}

std::string Encoded(uint32_t code, size_t length) {
  if (length == 1) return std::string(1, static_cast<char>(code));
  std::string bytes(length, '\0');
  for (size_t i = length; i-- > 1; code >>= 6) {
    bytes[i] = static_cast<char>(0x80 | (code & 0x3F));
  }
  const unsigned mark = 0xF00u >> length;
  bytes[0] = static_cast<char>((mark & 0xFF) | code);
  return bytes;
}

TEST(CharacterLength, EveryCodePointInEveryLengthAndNoneCutShort) {
  for (uint32_t code = 0; code < 0x120000; ++code) {
    for (size_t length = 1; length <= 4; ++length) {
      const uint32_t end = length == 1   ? 0x80
                           : length == 2 ? 0x800
                           : length == 3 ? 0x10000
                                         : 0x200000;
      if (code >= end) continue;
      const size_t expected = Expected(code) == length ? length : 0;
      ASSERT_EQ(CharacterLength(Encoded(code, length) + "x"), expected)
          << code << " in " << length;
    }
  }
  for (const char* whole : {"\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"}) {
    std::string bytes = whole;
    EXPECT_EQ(CharacterLength(bytes), bytes.size());
    while (bytes.size() > 1) {
      bytes.pop_back();
      EXPECT_EQ(CharacterLength(bytes), 0u);
    }
  }
  EXPECT_EQ(CharacterLength("\x80"), 0u);
  EXPECT_EQ(CharacterLength("\xFF"), 0u);
}

TEST(BytesText, HasTheUnitThatFits) {
  EXPECT_EQ(BytesText(0), "0 B");
  EXPECT_EQ(BytesText(512), "512 B");
  EXPECT_EQ(BytesText(957056), "934.6 KiB");
  EXPECT_EQ(BytesText(340.0 * (1 << 20)), "340.0 MiB");
  EXPECT_EQ(BytesText(-3.0 * (1 << 20)), "-3.0 MiB");
  EXPECT_EQ(BytesText(1.5 * (1 << 30)), "1.50 GiB");
  EXPECT_EQ(BytesText(2.25 * 1024 * (1 << 30)), "2.25 TiB");
  EXPECT_EQ(BytesText(1023), "1023 B");
  EXPECT_EQ(BytesText(1024), "1.0 KiB");
  EXPECT_EQ(BytesText((1 << 20) - 1), "1.0 MiB");
  EXPECT_EQ(BytesText((1 << 30) - 1), "1.00 GiB");
  EXPECT_EQ(BytesText(1024.0 * (1 << 30) - 1), "1.00 TiB");
}

TEST(ParseBytes, ReadsPowersOf1024) {
  for (const auto& [text, bytes] :
       std::vector<std::pair<std::string, std::optional<int64_t>>>{
           {"5000", 5000},
           {"2MiB", 2 << 20},
           {"0", 0},
           {"1048576TiB", int64_t{1} << 60},
           {"1048577TiB", std::nullopt},
           {"2MB", std::nullopt},
           {"-5", std::nullopt},
           {"GiB", std::nullopt},
           {"1.5GiB", std::nullopt},
           {"", std::nullopt}}) {
    EXPECT_EQ(ParseBytes(text), bytes) << text;
  }
}

TEST(ParseSpan, InTheUnitsThatCount) {
  EXPECT_EQ(ParseSpan("90m"), absl::Minutes(90));
  EXPECT_EQ(ParseSpan("2w", "hdw"), absl::Hours(24 * 14));
  EXPECT_EQ(ParseSpan("90m", "hdw"), std::nullopt);
  EXPECT_EQ(ParseSpan("9000000000000000000w"), absl::InfiniteDuration());
}

// 2026-01-02 03:04
const absl::Time kNow = absl::FromUnixSeconds(1767323045);
const absl::TimeZone kZone = absl::FixedTimeZone(3600);

TEST(ParseWhen, ReadsSpansAndDates) {
  const absl::Time day =
      absl::FromCivil(absl::CivilSecond(2026, 1, 31, 0, 0, 0), kZone);
  for (const auto& [text, time] :
       std::vector<std::pair<std::string, absl::Time>>{
           {"0m", kNow},
           {"30m", kNow - absl::Minutes(30)},
           {"12h", kNow - absl::Hours(12)},
           {"7d", kNow - absl::Hours(24 * 7)},
           {"2w", kNow - absl::Hours(24 * 14)},
           {"2026-01-31", day},
           {"2026-01-31 18:00", day + absl::Hours(18)},
           {"2026-01-31T18:00", day + absl::Hours(18)},
           {"2026-01-31T18:00:05", day + absl::Hours(18) + absl::Seconds(5)},
           {"2026-01-31T18:00:05Z", day + absl::Hours(19) + absl::Seconds(5)},
           {"2026-01-31T18:00:05.5+01:00",
            day + absl::Hours(18) + absl::Milliseconds(5500)}}) {
    const auto read = ParseWhen(text, kNow, kZone);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, time) << text;
  }
}

TEST(ParseWhen, RefusesOtherText) {
  for (const char* text :
       {"", "d", "7", "7y", "-7d", "1000000d", "99999999999999999999d", "+1d",
        "soon", "2026-13-01", "2026-01-31 25:00", "7 d", "\x1b[2J"}) {
    const auto read = ParseWhen(text, kNow, kZone);
    EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_EQ(read.status().message().find('\x1b'), std::string::npos);
  }
}

std::string Nested(int levels) {
  return std::string(levels, '[') + std::string(levels, ']');
}

TEST(NestsTooDeep, AtTheLimitAndOnePastItWithoutStrings) {
  EXPECT_FALSE(NestsTooDeep(Nested(limits::kJsonDepth)));
  EXPECT_TRUE(NestsTooDeep(Nested(limits::kJsonDepth + 1)));
  std::string mixed;
  for (int i = 0; i < limits::kJsonDepth; ++i) {
    mixed += i % 2 == 0 ? "{\"a\":" : "[";
  }
  EXPECT_FALSE(NestsTooDeep(mixed));
  EXPECT_TRUE(NestsTooDeep(mixed + "{"));
  std::string siblings;
  for (int i = 0; i < 1000; ++i) siblings += "[],{},";
  EXPECT_FALSE(NestsTooDeep("[" + siblings + "1]"));
  const std::string brackets(1000, '[');
  EXPECT_FALSE(NestsTooDeep("[\"" + brackets + "\\\"" + brackets + "\"]"));
  EXPECT_TRUE(NestsTooDeep("[\"\\\\\"," + brackets));
  EXPECT_FALSE(NestsTooDeep(""));
  EXPECT_FALSE(NestsTooDeep("\"\\"));
  EXPECT_FALSE(NestsTooDeep("]]]]}}}}"));
  EXPECT_TRUE(NestsTooDeep(std::string(100'000, '[')));
}

// FIPS 180-4's examples.
constexpr char kAbc[] =
    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
constexpr char kEmpty[] =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

TEST(Sha256Test, KnownDigestsWholeAndInPieces) {
  EXPECT_EQ(Sha256Hex("abc"), kAbc);
  EXPECT_EQ(Sha256Hex(""), kEmpty);
  Sha256 hash;
  hash.Update("a");
  hash.Update("");
  hash.Update("bc");
  EXPECT_EQ(hash.FinishHex(), kAbc);
}

TEST(Sha256Test, OfAFileLargerThanAPiece) {
  const std::string bytes(9'000'001, 'q');
  const std::string path = FreshFolder("sha256") / "file";
  std::ofstream(path, std::ios::binary) << bytes;
  EXPECT_EQ(*Sha256File(path), Sha256Hex(bytes));
  EXPECT_FALSE(Sha256File(path + ".none").ok());
}

// kAbc.
constexpr char kSpelled[] =
    "SHA256:BA:78:16:BF:8F:01:CF:EA:41:41:40:DE:5D:AE:22:23:B0:03:61:A3:96:17:"
    "7A:9C:B4:10:FF:61:F2:00:15:AD";

TEST(FingerprintTest, IsSpelledAsOpensslDoesAndUnderstoodInEveryCommonWay) {
  EXPECT_EQ(Fingerprint("abc"), kSpelled);
  const std::string spelled = kSpelled, digits = kAbc;
  const std::string pairs = spelled.substr(7);
  for (const std::string& text : {spelled, digits, pairs, "SHA256:" + digits,
                                  "sha256:" + digits, "  " + spelled + "\n"}) {
    const auto parsed = ParseFingerprint(text);
    ASSERT_TRUE(parsed.ok()) << text << ": " << parsed.status();
    EXPECT_EQ(*parsed, spelled) << text;
  }
}

TEST(FingerprintTest, AnythingElseIsRefused) {
  const std::string spelled = kSpelled, digits = kAbc;
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

TEST(ApiTokenTest, AMistypedTokenIsInvalid) {
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
