// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace mpsd::supervisor {
namespace {

TEST(AsUtf8, LeavesTextAlone) {
  const std::string text = "plain, ä, €, 😀, \t\n";
  EXPECT_EQ(AsUtf8(text), text);
}

TEST(AsUtf8, ReplacesWhatIsNoCharacter) {
  EXPECT_EQ(AsUtf8("a\xff"
                   "b"),
            "a?b");
  EXPECT_EQ(AsUtf8("cut \xe2\x82"), "cut ??");
  EXPECT_EQ(AsUtf8("\xc0\xaf"), "??") << "overlong";
  EXPECT_EQ(AsUtf8("\xe0\x80\xaf"), "???") << "overlong";
  EXPECT_EQ(AsUtf8("\xed\xa0\x80"), "???") << "a surrogate";
  EXPECT_EQ(AsUtf8("\xf4\x90\x80\x80"), "????") << "beyond U+10FFFF";
  EXPECT_EQ(AsUtf8(std::string("a\0b", 3)), "a?b");
}

TEST(AsUtf8, KeepsTheLastCharactersOfEachLength) {
  for (const std::string last :
       {"\x7f", "\xdf\xbf", "\xef\xbf\xbf", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_EQ(AsUtf8(last), last);
  }
}

}  // namespace
}  // namespace mpsd::supervisor
