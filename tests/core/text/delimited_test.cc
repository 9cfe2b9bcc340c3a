// SPDX-License-Identifier: Apache-2.0
#include "core/text/delimited.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mpsd::text {
namespace {

using Fields = std::vector<std::string>;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<Fields> Parse(std::string_view bytes, char delimiter = ',',
                          bool quoting = true) {
  auto rows = ParseDelimited(bytes, delimiter, quoting);
  EXPECT_TRUE(rows.ok()) << rows.status();
  std::vector<Fields> fields;
  for (const DelimitedRow& row : *rows) {
    EXPECT_EQ(row.fault, QuoteFault::kNone) << row.line;
    fields.push_back(row.fields);
  }
  return fields;
}

std::vector<int64_t> Lines(std::string_view bytes) {
  const auto rows = ParseDelimited(bytes, ',', true);
  std::vector<int64_t> lines;
  for (const DelimitedRow& row : *rows) lines.push_back(row.line);
  return lines;
}

QuoteFault Fault(std::string_view bytes) {
  return ParseDelimited(bytes, ',', true)->back().fault;
}

TEST(ParseDelimited, ReadsQuotedFields) {
  EXPECT_THAT(Parse("a,\"b,c\",\"say \"\"hi\"\"\"\n\"line\nline\",,\n"),
              ElementsAre(Fields{"a", "b,c", "say \"hi\""},
                          Fields{"line\nline", "", ""}));
  EXPECT_THAT(Parse("\"\"\n"), ElementsAre(Fields{""}));
  EXPECT_THAT(Parse("5\" disk,x"), ElementsAre(Fields{"5\" disk", "x"}));
  EXPECT_THAT(Parse(" a , \"b\" "), ElementsAre(Fields{" a ", " \"b\" "}));
  EXPECT_THAT(Parse(""), IsEmpty());
}

TEST(ParseDelimited, WithoutQuotingAQuoteIsACharacter) {
  EXPECT_THAT(Parse("\"a\t\"b\"\"\tc\n\"\t1", '\t', false),
              ElementsAre(Fields{"\"a", "\"b\"\"", "c"}, Fields{"\"", "1"}));
}

TEST(ParseDelimited, TakesEveryLineEndAndLeavesOutEmptyLines) {
  for (const char* text : {"a,b\nc,d", "a,b\r\nc,d\r\n", "a,b\rc,d\r",
                           "\n\na,b\n\n\nc,d\n\n", "\r\na,b\r\n\r\nc,d"}) {
    EXPECT_THAT(Parse(text), ElementsAre(Fields{"a", "b"}, Fields{"c", "d"}));
  }
}

TEST(ParseDelimited, NumbersTheLineWhereARowBegins) {
  EXPECT_THAT(Lines("a\nb\nc"), ElementsAre(1, 2, 3));
  EXPECT_THAT(Lines("a\r\nb\r\n\r\nc"), ElementsAre(1, 2, 4));
  EXPECT_THAT(Lines("a\rb\r\rc"), ElementsAre(1, 2, 4));
  EXPECT_THAT(Lines("\n\na\n\"x\n\ny\"\nz"), ElementsAre(3, 4, 7));
}

TEST(ParseDelimited, SaysWhichQuotesAreWrong) {
  EXPECT_EQ(Fault("a,\"b"), QuoteFault::kUnclosed);
  EXPECT_EQ(Fault("a,\"b\"\"\nc,d\n"), QuoteFault::kUnclosed);
  EXPECT_EQ(Fault("a,\"b\" c"), QuoteFault::kBehindQuote);
  EXPECT_EQ(Fault("\"b\"c\",d"), QuoteFault::kBehindQuote);
  EXPECT_EQ(Fault("a,\"b\"\r\n"), QuoteFault::kNone);
  EXPECT_EQ(Fault("\"b\",\"\""), QuoteFault::kNone);
}

TEST(ParseDelimited, TakesWideRowsAndAnyBytes) {
  std::string wide = "x";
  for (int i = 0; i < 500; ++i) wide += ",x";
  EXPECT_EQ(Parse(wide + "\n" + wide)[1].size(), 501u);
  const std::string bytes("a\0b,\xff", 5);
  EXPECT_THAT(Parse(bytes),
              ElementsAre(Fields{std::string("a\0b", 3), "\xff"}));
}

}  // namespace
}  // namespace mpsd::text
