// SPDX-License-Identifier: Apache-2.0
#include "client/text/table.h"

#include <gtest/gtest.h>

#include <sstream>

namespace mpsd::client {
namespace {

std::string Printed(const Table& table, int columns) {
  std::ostringstream out;
  table.Print(out, columns);
  return out.str();
}

TEST(TableTest, ColumnsFitTheirWidestCell) {
  Table table({"ID", "STATE", "NAME"});
  table.Add({"1", "RUNNING", "naïve"});
  table.Add({"22", "-", "x"});
  EXPECT_EQ(Printed(table, 0),
            "ID  STATE    NAME\n"
            "1   RUNNING  naïve\n"
            "22  -        x\n");
}

TEST(TableTest, LongLinesAreCut) {
  Table table({"ID", "NAME"});
  table.Add({"1", "a long name"});
  EXPECT_EQ(Printed(table, 8),
            "ID  NAME\n"
            "1   a l…\n");
}

TEST(TableTest, WidthCountsCharactersNotBytes) {
  Table table({"A", "B"});
  table.Add({"ïïï", "1"});
  table.Add({"abc", "2"});
  EXPECT_EQ(Printed(table, 0), "A    B\nïïï  1\nabc  2\n");
}

}  // namespace
}  // namespace mpsd::client
