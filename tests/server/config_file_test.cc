// SPDX-License-Identifier: Apache-2.0
#include "server/config_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

namespace mpsd {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// "name: value value" for each item.
std::vector<std::string> Read(const std::string& text) {
  std::istringstream input(text);
  std::vector<std::string> lines;
  for (const CLI::ConfigItem& item : ConfigFile().from_config(input)) {
    std::string line = item.fullname() + ":";
    for (const std::string& value : item.inputs) line += " " + value;
    lines.push_back(line);
  }
  return lines;
}

TEST(ConfigFileTest, AnEmptyFileSaysNothing) {
  EXPECT_THAT(Read(""), IsEmpty());
}

TEST(ConfigFileTest, AKeyIsAnOption) {
  EXPECT_THAT(Read("log-level = \"debug\"\n"), ElementsAre("log-level: debug"));
}

TEST(ConfigFileTest, TheTableOfVariablesIsOneOption) {
  EXPECT_THAT(Read("[environment]\nHF_HOME = \"/srv\"\nA = \"b\"\n"),
              ElementsAre("environment: HF_HOME=/srv A=b"));
}

TEST(ConfigFileTest, TheTablesOfUsersAreOneOption) {
  const std::vector<std::string> read =
      Read("[user.ada]\nqueued-jobs = 5\n[user.bob]\nqueued-jobs = 6\n");
  ASSERT_EQ(read.size(), 1u);
  EXPECT_THAT(read[0], testing::HasSubstr("user-limit:"));
  EXPECT_THAT(read[0], testing::HasSubstr("ada"));
  EXPECT_THAT(read[0], testing::HasSubstr("bob"));
}

}  // namespace
}  // namespace mpsd
