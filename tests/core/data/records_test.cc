// SPDX-License-Identifier: Apache-2.0
#include "core/data/records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "core/data/language_row.h"

namespace mpsd::data {
namespace {

using ::testing::ElementsAre;

// "<line>|<text>" of every record; an error's message at the end.
std::vector<std::string> Scan(std::string_view bytes) {
  RecordScanner scanner(bytes);
  std::vector<std::string> records;
  while (true) {
    const auto record = scanner.Next();
    if (!record.ok()) {
      records.push_back("error " + std::string(record.status().message()));
      return records;
    }
    if (!*record) return records;
    records.push_back(std::to_string((*record)->line) + "|" +
                      std::string((*record)->text));
  }
}

TEST(RecordScanner, LinesAsTheyStand) {
  EXPECT_THAT(Scan("{1}\n\n \t\r\n{2}\r\n{3}"),
              ElementsAre("1|{1}\n", "4|{2}\r\n", "5|{3}"));
  EXPECT_THAT(Scan("\xEF\xBB\xBF{1}\n"), ElementsAre("1|{1}\n"));
  EXPECT_THAT(Scan(""), ElementsAre());
  EXPECT_THAT(Scan("\xEF\xBB\xBF \n"), ElementsAre());
  EXPECT_FALSE(RecordScanner("{}").is_array());
}

TEST(RecordScanner, ElementsOfAnArray) {
  EXPECT_THAT(Scan("[{\"a\": 1}, {\"b\": [2, {}]}]"),
              ElementsAre("1|{\"a\": 1}", "1|{\"b\": [2, {}]}"));
  EXPECT_THAT(Scan("\xEF\xBB\xBF\n [\n{\"a\":\n 1}\n,\n\n{\"b\": 2}\n]\n\n"),
              ElementsAre("3|{\"a\":\n 1}", "7|{\"b\": 2}"));
  // Brackets, commas and quotes within strings.
  EXPECT_THAT(
      Scan(R"([{"a": "]},\"[{\\"}, "x,]", {"b\\": 1}])"),
      ElementsAre(R"(1|{"a": "]},\"[{\\"})", R"(1|"x,]")", R"(1|{"b\\": 1})"));
  EXPECT_THAT(Scan("[1, null ,[], true]"),
              ElementsAre("1|1", "1|null", "1|[]", "1|true"));
  EXPECT_THAT(Scan("[]"), ElementsAre());
  EXPECT_THAT(Scan(" [ ] "), ElementsAre());
  EXPECT_TRUE(RecordScanner("  [{}]").is_array());
}

TEST(RecordScanner, WhatIsWrongAroundTheRows) {
  EXPECT_THAT(Scan("[{}\n"), ElementsAre("1|{}",
                                         "error 2: the array does not "
                                         "end; expected \"]\""));
  EXPECT_THAT(Scan("["), ElementsAre("error 1: the array does not end; "
                                     "expected \"]\""));
  EXPECT_THAT(Scan("[{},\n]"),
              ElementsAre("1|{}", "error 2: expected a row beside the comma"));
  EXPECT_THAT(Scan("[,{}]"),
              ElementsAre("error 1: expected a row beside the comma"));
  EXPECT_THAT(
      Scan("[{}\n{}]"),
      ElementsAre(
          "error 2: expected \",\" or \"]\" behind a row of the array"));
  EXPECT_THAT(Scan("[{}]\n{}"),
              ElementsAre("1|{}",
                          "error 2: there is more behind the array; "
                          "expected its end"));
  EXPECT_THAT(Scan("[{},\n{\"a\": \"b}]\n"),
              ElementsAre("1|{}",
                          "error 2: the row that begins here does not "
                          "end"));
  EXPECT_THAT(Scan("[\"\\"),
              ElementsAre("error 1: the row that begins here does not end"));
}

// A row deeper than any stack: no recursion, and the parser refuses it.
TEST(RecordScanner, DepthCostsNothing) {
  const std::string deep = std::string(3'000'000, '[');
  const std::string closed = deep + std::string(3'000'000, ']');
  EXPECT_THAT(Scan(deep),
              ElementsAre("error 1: the row that begins here does not end"));
  RecordScanner scanner(closed);
  const auto record = scanner.Next();
  ASSERT_TRUE(record.ok() && *record);
  EXPECT_EQ((*record)->text.size(), closed.size() - 2);
  EXPECT_FALSE(ParseLanguageRow((*record)->text).ok());
}

// Whatever the bytes are, it comes to an end, and records lie within them.
TEST(RecordScanner, SurvivesAnyBytes) {
  std::mt19937 random(3);
  constexpr std::string_view kBytes = "[]{},:\"\\ \n\ra1";
  for (int i = 0; i < 50'000; ++i) {
    std::string bytes = random() % 2 ? "[" : "";
    for (int n = random() % 24; n > 0; --n) {
      bytes += kBytes[random() % kBytes.size()];
    }
    RecordScanner scanner(bytes);
    for (int n = 0;; ++n) {
      ASSERT_LE(n, 26) << bytes;
      const auto record = scanner.Next();
      if (!record.ok() || !*record) break;
      ASSERT_FALSE((*record)->text.empty());
      ASSERT_GE((*record)->text.data(), bytes.data());
      ASSERT_LE((*record)->text.data() + (*record)->text.size(),
                bytes.data() + bytes.size());
    }
    ASSERT_LE(scanner.position(), bytes.size());
  }
}

}  // namespace
}  // namespace mpsd::data
