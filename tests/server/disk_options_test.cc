// SPDX-License-Identifier: Apache-2.0
#include "server/disk_options.h"

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

TEST(DiskOptionsTest, NothingGoesUnlessAsked) {
  const auto config = Parse({});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->min_free_bytes, int64_t{1} << 30);
  EXPECT_EQ(config->blob_grace, absl::Hours(24));
  EXPECT_EQ(config->state_budget, 0);
  EXPECT_TRUE(config->user_limits.others.keep.KeepAll());
}

TEST(DiskOptionsTest, ReadsWhatIsGiven) {
  const auto config = Parse({"--min-free-bytes", "5", "--blob-grace-seconds",
                             "1.5", "--state-budget-bytes", "500GiB"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->min_free_bytes, 5);
  EXPECT_EQ(config->blob_grace, absl::Seconds(1.5));
  EXPECT_EQ(config->state_budget, int64_t{500} << 30);
  EXPECT_EQ(Parse({"--state-budget-bytes", "none"})->state_budget, 0);
}

TEST(DiskOptionsTest, ABudgetThatWouldRemoveAllOrMeansNothingIsRefused) {
  for (const char* text : {"0", "-1", "12GB", "1e9", "nan", "9999999TiB"}) {
    const absl::Status status =
        Parse({std::string("--state-budget-bytes=") + text}).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text;
    EXPECT_THAT(std::string(status.message()),
                testing::HasSubstr("--state-budget-bytes: expected"));
  }
}

}  // namespace
}  // namespace mpsd
