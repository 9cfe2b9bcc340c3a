// SPDX-License-Identifier: Apache-2.0
#include "core/base/printable.h"

#include <gtest/gtest.h>

#include <string>

#include "core/base/limits.h"

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

TEST(Printable, LeavesTextAlone) {
  for (const std::string text :
       {"", "plain", "ä € 😀", "C:\\new\\x1b", "\xc2\xa0\xe2\x80\x8d",
        "\xe2\x80\xa7\xe2\x80\xaf", "\xe2\x81\xa5\xe2\x81\xaa",
        "\xf4\x8f\xbf\xbf"}) {
    EXPECT_EQ(Printable(text), text);
    EXPECT_TRUE(IsPrintable(text)) << text;
  }
}

TEST(Printable, KeepsLinesWhereTheyMayStay) {
  EXPECT_EQ(Printable("a\n\tb\r\n\x1b", Breaks::kKeep), "a\n\tb\\r\n\\x1b");
  EXPECT_TRUE(IsPrintable("a\n\tb", Breaks::kKeep));
  EXPECT_FALSE(IsPrintable("a\r", Breaks::kKeep));
}

TEST(Shortened, CutsBetweenCharacters) {
  EXPECT_EQ(Shortened("12345", 5), "12345");
  EXPECT_EQ(Shortened("123456", 5), "12…");
  EXPECT_EQ(Shortened("a€€€", 9), "a€…") << "never within a character";
  EXPECT_EQ(Shortened("€€", 3), "…");
  EXPECT_EQ(Shortened("", 3), "");
}

TEST(Quotable, IsOneShortLine) {
  EXPECT_EQ(Quotable("a\nb"), "a\\nb");
  const std::string longest(limits::kQuotedBytes, 'x');
  EXPECT_EQ(Quotable(longest), longest);
  EXPECT_EQ(Quotable(longest + "x"),
            std::string(limits::kQuotedBytes - 3, 'x') + "…");
  EXPECT_EQ(Quotable(std::string(1 << 20, '\x1b')).size(),
            limits::kQuotedBytes);
}

TEST(Indented, NoLineButTheFirstBeginsAtTheMargin) {
  EXPECT_EQ(Indented("a\nb\n\nc"), "a\n    b\n    \n    c");
  EXPECT_EQ(Indented(""), "");
}

}  // namespace
}  // namespace mpsd::base
