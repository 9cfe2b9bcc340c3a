// SPDX-License-Identifier: Apache-2.0
#include "server/config_changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <string>

namespace mpsd {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Config Parse(const std::vector<std::string>& args) {
  auto parsed = ParseConfig(args);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return std::get<Config>(*parsed);
}

TEST(ConfigChangesTest, NamesWhatDiffersByWhenItCounts) {
  const Config before = Parse({"--max-failures", "2"});
  const Config after = Parse({"--log-level", "debug", "--quiet-hours",
                              "22:00-07:00", "--environment", "A=b"});
  const ConfigChanges changes = CompareConfigs(before, after);
  EXPECT_THAT(changes.live, ElementsAre("log-level", "quiet-hours"));
  EXPECT_THAT(changes.restart, ElementsAre("environment", "max-failures"));
  EXPECT_THAT(CompareConfigs(after, after).live, IsEmpty());
  EXPECT_THAT(CompareConfigs(after, after).restart, IsEmpty());
}

TEST(ConfigChangesTest, EveryOptionIsAKeyAndNoOther) {
  auto help = ParseConfig({"--help"});
  ASSERT_TRUE(help.ok());
  const std::string text = std::get<PrintAndExit>(*help).text;
  std::set<std::string> options, keys;
  // CLI11 indents options by two columns or, since 2.5, by ten.
  const std::regex line("\n {2,10}(?:-\\w, *)?--([a-z-]+)");
  for (std::sregex_iterator it(text.begin(), text.end(), line), end; it != end;
       ++it) {
    options.insert((*it)[1]);
  }
  for (const char* other : {"help", "version", "config", "check-notify"}) {
    EXPECT_EQ(options.erase(other), 1u) << other;
  }
  for (const ConfigKey& key : ConfigKeys()) keys.insert(key.name);
  EXPECT_EQ(keys, options);
}

// What is called live is taken over, and nothing else.
TEST(ConfigChangesTest, LiveKeysAreTakenOver) {
  const Config before = Parse({});
  const Config after = Parse({"--log-level",
                              "debug",
                              "--pause-on-battery",
                              "--pause-on-thermal",
                              "heavy",
                              "--pause-on-memory-pressure",
                              "warn",
                              "--quiet-hours",
                              "22:00-07:00",
                              "--idle-only-seconds",
                              "5",
                              "--pause-hold-seconds",
                              "7",
                              "--pause-settle-seconds",
                              "8",
                              "--notify-on",
                              "failed",
                              "--notify-command",
                              "/bin/true",
                              "--notify-low-disk-bytes",
                              "9",
                              "--notify-settle-seconds",
                              "9",
                              "--limit-queued-jobs",
                              "3",
                              "--limit-upload-bytes",
                              "4MiB",
                              "--limit-result-bytes",
                              "5",
                              "--limit-priority",
                              "-1:1",
                              "--limit-job-hours",
                              "6",
                              "--keep-days",
                              "30",
                              "--keep-jobs",
                              "3",
                              "--keep-bytes",
                              "9GiB",
                              "--keep-checkpoints-days",
                              "0.5",
                              "--state-budget-bytes",
                              "9TiB",
                              "--fair-share-half-life-hours",
                              "7",
                              "--preempt",
                              "--preempt-margin-seconds",
                              "8",
                              "--preempt-min-run-seconds",
                              "9",
                              "--user-limit",
                              "ada:queued-jobs=9",
                              "--max-failures",
                              "9",
                              "--state-dir",
                              "/elsewhere",
                              "--host-interval-seconds",
                              "1"});
  const Config taken = WithLiveKeys(before, after);
  EXPECT_THAT(CompareConfigs(taken, after).live, IsEmpty());
  EXPECT_THAT(CompareConfigs(before, taken).restart, IsEmpty());
  size_t live = 0;
  for (const ConfigKey& key : ConfigKeys()) live += key.live ? 1 : 0;
  EXPECT_EQ(CompareConfigs(before, taken).live.size(), live);
}

}  // namespace
}  // namespace mpsd
