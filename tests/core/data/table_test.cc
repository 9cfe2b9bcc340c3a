// SPDX-License-Identifier: Apache-2.0
#include "core/data/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "core/data/language_row.h"
#include "core/data/records.h"

namespace mpsd::data {

namespace {

using testing::ElementsAre;

Table Read(const std::string& name, std::string_view bytes,
           const char* task = "") {
  return ReadTable(name, bytes, spec::FindGlueTask(task)).value();
}

std::vector<std::string> Cells(const Table& table, size_t row) {
  std::vector<std::string> cells;
  for (const RowJson& cell : table.rows[row].cells) {
    cells.push_back(cell.is_string() ? cell.get<std::string>() : cell.dump());
  }
  return cells;
}

TEST(ReadTable, TakesCsvWithItsQuotes) {
  const Table table = Read(
      "x.csv", "\xEF\xBB\xBFtext,label\r\n\"a, \"\"b\"\"\nc\",1\r\n\r\nd,2");
  EXPECT_FALSE(table.json);
  EXPECT_THAT(table.columns, ElementsAre("text", "label"));
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_THAT(Cells(table, 0), ElementsAre("a, \"b\"\nc", "1"));
  EXPECT_EQ(table.rows[0].line, 2);
  EXPECT_EQ(table.rows[1].line, 5);
}

TEST(ReadTable, TakesTsvQuotedWhereAFieldBeginsSo) {
  for (const char* name : {"x.tsv", "x.TXT"}) {
    const Table table =
        Read(name, "text\tlabel\n5\" disk\t1\n\"a\tb\"\t0\na, b\t0\n");
    ASSERT_EQ(table.rows.size(), 3u);
    EXPECT_THAT(Cells(table, 0), ElementsAre("5\" disk", "1"));
    EXPECT_THAT(Cells(table, 1), ElementsAre("a\tb", "0"));
    EXPECT_THAT(Cells(table, 2), ElementsAre("a, b", "0"));
  }
}

TEST(ReadTable, GlueFilesHaveNoQuotingAndMayBeRagged) {
  const Table table = Read("dev.tsv",
                           "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
                           "1\t2\t3\t\"He said\tShe said \"no\"\n"
                           "0\t4\n"
                           "0\t5\t6\ta\tb\tbeyond\n",
                           "mrpc");
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(table.dropped_rows, 1);
  EXPECT_THAT(Cells(table, 0),
              ElementsAre("1", "2", "3", "\"He said", "She said \"no\""));
  EXPECT_THAT(Cells(table, 1), ElementsAre("0", "5", "6", "a", "b"));
  // A task's rows saved as CSV are quoted like any CSV.
  EXPECT_THAT(Cells(Read("x.csv", "sentence,label\n\"a,b\",1\n", "sst2"), 0),
              ElementsAre("a,b", "1"));
}

TEST(ReadTable, ColaHasNoHeaderButInItsTestFile) {
  const Table train = Read(
      "train.tsv", "gj04\t1\t\tThey drank.\ngj05\t0\t*\tDrank they.\n", "cola");
  EXPECT_THAT(train.columns, ElementsAre("", "label", "", "sentence"));
  ASSERT_EQ(train.rows.size(), 2u);
  EXPECT_THAT(Cells(train, 1), ElementsAre("gj05", "0", "*", "Drank they."));
  const Table test = Read("test.tsv", "index\tsentence\n0\tHe ran.\n", "cola");
  EXPECT_THAT(test.columns, ElementsAre("index", "sentence"));
  EXPECT_EQ(test.rows.size(), 1u);
}

TEST(ReadTable, JsonLinesHaveTheColumnsOfAllTheirRows) {
  const Table table = Read(
      "x.jsonl", "{\"text\": \"a\"}\r\n\n{\"label\": [1], \"text\": \"b\"}\n");
  EXPECT_TRUE(table.json);
  EXPECT_THAT(table.columns, ElementsAre("text", "label"));
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_THAT(Cells(table, 0), ElementsAre("a", "null"));
  EXPECT_THAT(Cells(table, 1), ElementsAre("b", "[1]"));
  EXPECT_EQ(table.rows[1].line, 3);
}

TEST(ReadTable, AJsonArrayIsRowsToo) {
  const auto table = *ReadTable(
      "a.json", "[\n{\"a\": 1,\n \"b\": \"x\"},\n{\"a\": 2}]", nullptr);
  EXPECT_TRUE(table.json);
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(table.rows[1].line, 4);
  EXPECT_EQ(table.rows[0].cells[1], "x");
  EXPECT_TRUE(table.rows[1].cells[1].is_null());
  EXPECT_EQ(
      ReadTable("a.json", "[{\"a\": 1},\n2, {}", nullptr).status().message(),
      "a.json:2: expected an object, found 2\na.json:2: the array is not "
      "closed; expected \"]\"");
}

TEST(ReadTable, TakesEveryCharacterOfUtf8AndNothingElse) {
  const std::string good =
      "text\n\u00e9\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff\x7f\n";
  EXPECT_EQ(Read("x.csv", good).rows.size(), 1u);
  for (const char* bad :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80",
        "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xE2\x82",
        "\xE9t\xE9", "\xFF\xFE"}) {
    const auto table =
        ReadTable("x.csv", std::string("text\na\n") + bad, nullptr);
    EXPECT_EQ(table.status().message(),
              "x.csv:3: not UTF-8; save the file as UTF-8")
        << bad;
  }
}

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

TEST(RecordScanner, LinesAsTheyStandOrElementsOfAnArray) {
  EXPECT_THAT(Scan("{1}\n\n \t\r\n{2}\r\n{3}"),
              ElementsAre("1|{1}\n", "4|{2}\r\n", "5|{3}"));
  EXPECT_THAT(Scan("\xEF\xBB\xBF{1}\n"), ElementsAre("1|{1}\n"));
  EXPECT_THAT(Scan(""), ElementsAre());
  EXPECT_THAT(Scan("\xEF\xBB\xBF \n"), ElementsAre());
  EXPECT_FALSE(RecordScanner("{}").is_array());
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
  EXPECT_THAT(
      Scan("[{}\n"),
      ElementsAre("1|{}", "error 2: the array is not closed; expected \"]\""));
  EXPECT_THAT(Scan("["),
              ElementsAre("error 1: the array is not closed; expected \"]\""));
  EXPECT_THAT(Scan("[{},\n]"),
              ElementsAre("1|{}", "error 2: expected a row next to the comma"));
  EXPECT_THAT(Scan("[,{}]"),
              ElementsAre("error 1: expected a row next to the comma"));
  EXPECT_THAT(
      Scan("[{}\n{}]"),
      ElementsAre("error 2: expected \",\" or \"]\" after a row of the array"));
  EXPECT_THAT(
      Scan("[{}]\n{}"),
      ElementsAre("1|{}",
                  "error 2: there is text after the array; expected its end"));
  EXPECT_THAT(
      Scan("[{},\n{\"a\": \"b}]\n"),
      ElementsAre("1|{}", "error 2: the row that begins here is not closed"));
  EXPECT_THAT(Scan("[\"\\"),
              ElementsAre("error 1: the row that begins here is not closed"));
}

// A row deeper than any stack: no recursion, and the parser refuses it.
TEST(RecordScanner, DepthCostsNothing) {
  const std::string deep = std::string(3'000'000, '[');
  const std::string closed = deep + std::string(3'000'000, ']');
  EXPECT_THAT(Scan(deep),
              ElementsAre("error 1: the row that begins here is not closed"));
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
