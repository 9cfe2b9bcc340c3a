// SPDX-License-Identifier: Apache-2.0
#include "client/record_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/client/some_records.h"

namespace mpsd::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Line(const v1::Record& record, RecordFormat format) {
  return RecordLine(record, format, absl::UTCTimeZone());
}

TEST(RecordLines, CsvHasACellForEachColumn) {
  const std::string header = RecordHeader(RecordFormat::kCsv);
  const std::string line = Line(SomeRecord("A"), RecordFormat::kCsv);
  EXPECT_EQ(std::count(header.begin(), header.end(), ','),
            std::count(line.begin(), line.end(), ','));
  EXPECT_THAT(line, HasSubstr("A,training,SUCCEEDED,,Done,moods,ann,"));
  EXPECT_THAT(line, HasSubstr("2026-01-02T03:04:05Z"));
  EXPECT_THAT(line, HasSubstr(",4000000000,1,"));
  // An entry tells little, in as many cells.
  const std::string entry = Line(SomeEntry("E", "text"), RecordFormat::kCsv);
  EXPECT_EQ(std::count(header.begin(), header.end(), ','),
            std::count(entry.begin(), entry.end(), ','));
}

TEST(RecordLines, NoCellIsAFormula) {
  for (const char* text : {"=1+1", "+1", "-1", "@x", "\tx"}) {
    v1::Record record = SomeRecord("A");
    record.set_name(text);
    record.set_model(text);
    record.mutable_notes()->Clear();
    v1::RecordNote& note = *record.add_notes();
    note.set_text(text);
    const std::string line = Line(record, RecordFormat::kCsv);
    EXPECT_THAT(line, Not(HasSubstr(std::string(",") + text)));
    EXPECT_THAT(line, HasSubstr(std::string(",'") + text));
  }
}

TEST(RecordLines, MarkdownShowsTextsAsTheyAre) {
  v1::Record record = SomeRecord("A");
  record.set_name("a|b <script> [x](http://y) *b* `c` @ann \x1b[2J\nnext");
  const std::string line = Line(record, RecordFormat::kMarkdown);
  const std::string header = RecordHeader(RecordFormat::kMarkdown);
  EXPECT_THAT(line,
              HasSubstr("a\\|b &lt;script&gt; \\[x\\]\\(http:&#8203;//y\\) "
                        "\\*b\\* \\`c\\` &#64;ann"));
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  EXPECT_THAT(line, Not(HasSubstr("\x1b")));
  // Without the escaped one, as many bars as the header's lines have.
  EXPECT_EQ(std::count(line.begin(), line.end(), '|') - 1,
            std::count(header.begin(), header.end(), '|') / 2);
}

TEST(RecordLines, JsonLinesHaveAll) {
  const auto json =
      nlohmann::json::parse(Line(SomeRecord("A"), RecordFormat::kJsonLines));
  EXPECT_EQ(json["spec"]["lora"]["r"], 4);
  EXPECT_EQ(json["fallbacks"]["ops"]["aten::svd"], 3);
  EXPECT_EQ(RecordHeader(RecordFormat::kJsonLines), "");
}

}  // namespace
}  // namespace mpsd::client
