// SPDX-License-Identifier: Apache-2.0
#include "server/share_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

namespace mpsd {
namespace {

absl::StatusOr<Config> Parse(const std::vector<std::string>& args) {
  auto parsed = ParseConfig(args);
  if (!parsed.ok()) return parsed.status();
  return std::get<Config>(*parsed);
}

TEST(ShareOptionsTest, ADayIsRememberedAndNothingTakenUnlessAsked) {
  const auto config = Parse({});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->fair_share_half_life, absl::Hours(24));
  EXPECT_FALSE(config->preemption.enabled);
  EXPECT_EQ(config->preemption.margin, absl::Minutes(5));
  EXPECT_EQ(config->preemption.least_run, absl::Minutes(5));
}

TEST(ShareOptionsTest, ReadsWhatIsGiven) {
  const auto config =
      Parse({"--fair-share-half-life-hours", "1.5", "--preempt",
             "--preempt-margin-seconds", "7", "--preempt-min-run-seconds=0"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->fair_share_half_life, absl::Minutes(90));
  EXPECT_TRUE(config->preemption.enabled);
  EXPECT_EQ(config->preemption.margin, absl::Seconds(7));
  EXPECT_EQ(config->preemption.least_run, absl::ZeroDuration());
}

TEST(ShareOptionsTest, RefusesWhatMakesNoSense) {
  for (const char* args :
       {"--fair-share-half-life-hours=-1", "--fair-share-half-life-hours=long",
        "--preempt-margin-seconds=-1", "--preempt-min-run-seconds=nan"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Parse({args}).status())) << args;
  }
}

}  // namespace
}  // namespace mpsd
