// SPDX-License-Identifier: Apache-2.0
#include "client/top/frame.h"

#include <gtest/gtest.h>

namespace mpsd::client::top {
namespace {

std::string Shown(const std::string& text, int columns = 40, bool utf8 = true) {
  Frame frame({columns, 1}, utf8);
  frame.Put(0, 0, text);
  return frame.Row(0);
}

TEST(Frame, ShowsTextWhereItIsPut) {
  Frame frame({10, 2}, true);
  EXPECT_EQ(frame.Put(3, 1, "loss", Look::kBad), 7);
  EXPECT_EQ(frame.Row(0), "");
  EXPECT_EQ(frame.Row(1), "   loss");
  EXPECT_EQ(frame.at(3, 1).look, Look::kBad);
  EXPECT_EQ(frame.at(2, 1).look, Look::kPlain);
}

TEST(Frame, CutsWhatDoesNotFit) {
  EXPECT_EQ(Shown("0123456789", 10), "0123456789");
  EXPECT_EQ(Shown("0123456789a", 10), "012345678…");
  EXPECT_EQ(Shown("0123456789a", 10, false), "012345678~");
  Frame frame({10, 1}, true);
  EXPECT_EQ(frame.Put(2, 0, "abcdef", Look::kPlain, 3), 5);
  EXPECT_EQ(frame.Row(0), "  ab…");
}

TEST(Frame, TakesPositionsOutside) {
  Frame frame({4, 1}, true);
  frame.Put(0, 1, "below");
  frame.Put(0, -1, "above");
  frame.Put(4, 0, "right");
  frame.Put(9, 0, "right");
  frame.Put(-1, 0, "left");
  frame.Put(0, 0, "x", Look::kPlain, 0);
  EXPECT_EQ(frame.Row(0), "");
  Frame none({0, 0}, true);
  none.Put(0, 0, "x");
}

TEST(Frame, WritesControlsOut) {
  EXPECT_EQ(Shown("a\x1b[2Jb\x07"), "a\\x1b[2Jb\\x07");
  EXPECT_EQ(Shown("a\nb\tc"), "a b c");
  EXPECT_EQ(Shown("\xc2\x9b"
                  "31m"),
            "\\u009b31m");  // CSI in one character
  EXPECT_EQ(Shown("\xe2\x80\xae"
                  "abc"),
            "\\u202eabc");  // turns words around
  EXPECT_EQ(Shown("\xff\xfe"), "\\xff\\xfe");
}

TEST(Frame, GivesWideCharactersTwoColumns) {
  Frame frame({6, 1}, true);
  EXPECT_EQ(frame.Put(0, 0, "気分x"), 5);
  EXPECT_EQ(frame.at(0, 0).columns, 2);
  EXPECT_EQ(frame.at(1, 0).columns, 0);
  EXPECT_EQ(frame.at(4, 0).character, U'x');
  EXPECT_EQ(frame.Row(0), "気分x");
  // Half of a character is not shown: not at the edge, not under another text.
  EXPECT_EQ(Shown("気分気分", 6), "気分…");
  frame.Put(1, 0, "|");
  EXPECT_EQ(frame.Row(0), " |分x");
  frame.Put(2, 0, "|");
  EXPECT_EQ(frame.Row(0), " || x");
}

TEST(Frame, LeavesCombiningMarksOut) {
  std::string zalgo = "n";
  for (int i = 0; i < 50; ++i) zalgo += "\xcc\x81";  // U+0301
  EXPECT_EQ(Shown(zalgo + "a\xe2\x80\x8dme\xef\xb8\x8f"), "name");
}

TEST(Frame, ShowsNoCharacterWhoseWidthTerminalsDisagreeOn) {
  EXPECT_EQ(Shown("שלום"), "????");           // Hebrew, from right to left
  EXPECT_EQ(Shown("\xee\x80\x80"), "?");      // private
  EXPECT_EQ(Shown("\xf3\xb0\x80\x80"), "?");  // private, beyond 16 bits
  EXPECT_EQ(Shown("Straße Ωмега"), "Straße Ωмега");
}

TEST(Frame, ShowsOnlyAsciiWithoutUtf8) {
  EXPECT_EQ(Shown("Straße 気 ⠒", 40, false), "Stra?e ? ?");
}

TEST(Frame, PaintsWholeRows) {
  Frame frame({3, 1}, true);
  frame.Put(0, 0, "x");
  frame.Paint(0, Look::kBar);
  EXPECT_EQ(frame.at(2, 0).look, Look::kBar);
  EXPECT_EQ(frame.Row(0), "x");
}

TEST(ColumnsOf, KnowsEveryCharacterOfOurDrawings) {
  for (const char32_t c : std::u32string(U"⠒⣿━┃◆│┤└─┬▁█░…")) {
    EXPECT_EQ(ColumnsOf(c), 1) << static_cast<uint32_t>(c);
  }
  for (char32_t c = 0; c < 0x20; ++c) EXPECT_EQ(ColumnsOf(c), 0);
  EXPECT_EQ(ColumnsOf(0x7F), 0);
  EXPECT_EQ(ColumnsOf(0x9B), 0);
  EXPECT_EQ(ColumnsOf(0x10FFFF), 0);
}

TEST(AppendUtf8, EncodesEveryLength) {
  std::string text;
  for (const char32_t c : {U'a', U'ß', U'気', U'🚀'}) AppendUtf8(c, text);
  EXPECT_EQ(text, "aß気🚀");
}

TEST(Wrapped, BreaksLinesByColumns) {
  EXPECT_EQ(Wrapped("", 4, true), std::vector<std::string>{""});
  EXPECT_EQ(Wrapped("abcdefghi", 4, true),
            (std::vector<std::string>{"abcd", "efgh", "i"}));
  EXPECT_EQ(Wrapped("a気分b", 3, true),
            (std::vector<std::string>{"a気", "分b"}));
  // A character that is wider than a line stands alone.
  EXPECT_EQ(Wrapped("気分", 1, true), (std::vector<std::string>{"気", "分"}));
}

}  // namespace
}  // namespace mpsd::client::top
