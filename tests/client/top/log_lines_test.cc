// SPDX-License-Identifier: Apache-2.0
#include "client/top/log_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mpsd::client::top {
namespace {

using testing::ElementsAre;

TEST(LogLines, JoinsPieces) {
  LogLines log;
  EXPECT_THAT(log.lines(), ElementsAre());
  log.Add("fir");
  EXPECT_THAT(log.lines(), ElementsAre("fir"));
  log.Add("st\n\nthi");
  log.Add("rd\n");
  EXPECT_THAT(log.lines(), ElementsAre("first", "", "third"));
  log.Add("a\tb");
  EXPECT_THAT(log.lines(), ElementsAre("first", "", "third", "a    b"));
}

TEST(LogLines, WritesALineAgainBehindAReturn) {
  LogLines log;
  log.Add("10%\r20%");
  EXPECT_THAT(log.lines(), ElementsAre("20%"));
  log.Add("\r");
  EXPECT_THAT(log.lines(), ElementsAre("20%"));
  log.Add("\nnext\r\nlast");
  EXPECT_THAT(log.lines(), ElementsAre("20%", "next", "last"));
}

TEST(LogLines, KeepsTheLastLinesAlone) {
  LogLines log;
  for (size_t i = 0; i < LogLines::kMostLines + 10; ++i) {
    log.Add(std::to_string(i) + "\n");
  }
  EXPECT_EQ(log.lines().size(), LogLines::kMostLines);
  EXPECT_EQ(log.lines().front(), "10");
}

TEST(LogLines, BreaksLongLines) {
  LogLines log;
  log.Add(std::string(LogLines::kLongestLine + 1, 'x') + "\n");
  ASSERT_EQ(log.lines().size(), 2u);
  EXPECT_EQ(log.lines()[1], "x");
}

}  // namespace
}  // namespace mpsd::client::top
