// SPDX-License-Identifier: Apache-2.0
#include "client/import/shell_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mpsd::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Words = std::vector<std::string>;

std::vector<Words> Split(const std::string& text) {
  auto commands = ShellCommands(text);
  EXPECT_TRUE(commands.ok()) << commands.status();
  return commands.ok() ? *commands : std::vector<Words>();
}

TEST(ShellCommands, WordsQuotesAndBackslashes) {
  EXPECT_THAT(Split(R"(a  b\ c 'd e' "f \"g\" \\ \n" h"i"'j')"),
              ElementsAre(Words{"a", "b c", "d e", R"(f "g" \ \n)", "hij"}));
  EXPECT_THAT(Split("''"), ElementsAre(Words{""}));
  EXPECT_THAT(Split(" \n\t"), IsEmpty());
}

TEST(ShellCommands, LinesGoOnBehindABackslash) {
  EXPECT_THAT(
      Split("a \\\n  b \\\r\n  c\nd; e && f"),
      ElementsAre(Words{"a", "b", "c"}, Words{"d"}, Words{"e"}, Words{"f"}));
}

TEST(ShellCommands, CommentsAreLeftOut) {
  EXPECT_THAT(Split("# all of it\na#b # rest 'of it\nc"),
              ElementsAre(Words{"a#b"}, Words{"c"}));
}

TEST(ShellCommands, VariablesOfTheText) {
  EXPECT_THAT(
      Split("export TASK=mrpc DIR='/tmp/a b'\n"
            "N=2\nrun $TASK \"${DIR}/$TASK/\" '$TASK' ${N} $"),
      ElementsAre(Words{"run", "mrpc", "/tmp/a b/mrpc/", "$TASK", "2", "$"}));
}

TEST(ShellCommands, WhatCannotBeReadNamesItsLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"a\n'b", "line 2: the quote ' does not end"},
      {"a\n\"b\nc", "line 2: the quote \" does not end"},
      {"a\n\nb $HOME", "line 3: $HOME is not set in this file"},
      {"a $(pwd)", "line 1: a command in $( ) is not run"},
      {"a `pwd`", "line 1: a command in ` ` is not run"},
      {"a ${b:-c}", "line 1: ${b is more than a name"}};
  for (const auto& [text, message] : cases) {
    EXPECT_THAT(std::string(ShellCommands(text).status().message()),
                HasSubstr(message));
  }
}

}  // namespace
}  // namespace mpsd::client
