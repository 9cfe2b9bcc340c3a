// SPDX-License-Identifier: Apache-2.0
#include "client/text/csv.h"

#include <gtest/gtest.h>

namespace mpsd::client {
namespace {

using Json = nlohmann::ordered_json;

TEST(CsvLine, WritesEachKindOfValue) {
  EXPECT_EQ(CsvLine({}), "\r\n");
  EXPECT_EQ(CsvLine({"a", 1, -2.5, nullptr, true, ""}), "a,1,-2.5,,true,\r\n");
  EXPECT_EQ(CsvLine({Json{{"k", "v"}}, Json::array({"a", "b"})}),
            "\"{\"\"k\"\":\"\"v\"\"}\",\"[\"\"a\"\",\"\"b\"\"]\"\r\n");
}

TEST(CsvLine, QuotesWhatDividesFields) {
  EXPECT_EQ(CsvLine({"a,b", "say \"x\"", "two\nlines", "ünï"}),
            "\"a,b\",\"say \"\"x\"\"\",\"two\nlines\",ünï\r\n");
}

TEST(CsvLine, NoNameIsAFormulaOrSteersATerminal) {
  EXPECT_EQ(CsvLine({"=1+1", "+1", "-1", "@x", "\tx", "a=b", -1}),
            "'=1+1,'+1,'-1,'@x,'\tx,a=b,-1\r\n");
  EXPECT_EQ(CsvLine({"\x1b[2J", "a\rb", "\xff"}), "\\x1b[2J,a\\rb,\\xff\r\n");
}

}  // namespace
}  // namespace mpsd::client
