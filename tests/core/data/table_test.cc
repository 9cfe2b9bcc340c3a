// SPDX-License-Identifier: Apache-2.0
#include "core/data/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mpsd::data {
namespace {

using ::testing::ElementsAre;

Table Read(const std::string& name, std::string_view bytes,
           const char* task = "") {
  auto table = ReadTable(name, bytes, spec::FindGlueTask(task));
  EXPECT_TRUE(table.ok()) << table.status();
  return table.value_or(Table());
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
  const auto table = ReadTable(
      "a.json", "[\n{\"a\": 1,\n \"b\": \"x\"},\n{\"a\": 2}]", nullptr);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_TRUE(table->json);
  ASSERT_EQ(table->rows.size(), 2u);
  EXPECT_EQ(table->rows[1].line, 4);
  EXPECT_EQ(table->rows[0].cells[1], "x");
  EXPECT_TRUE(table->rows[1].cells[1].is_null());
  EXPECT_EQ(
      ReadTable("a.json", "[{\"a\": 1},\n2, {}", nullptr).status().message(),
      "a.json:2: expected an object, found 2\n"
      "a.json:2: the array does not end; expected \"]\"");
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

}  // namespace
}  // namespace mpsd::data
