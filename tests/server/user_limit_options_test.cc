// SPDX-License-Identifier: Apache-2.0
#include "server/user_limit_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <variant>
#include <vector>

#include "server/config.h"

namespace mpsd {
namespace {

using testing::HasSubstr;

class UserLimitOptionsTest : public testing::Test {
 protected:
  ~UserLimitOptionsTest() override { std::filesystem::remove(file_); }
  absl::StatusOr<jobs::LimitSettings> Parse(std::vector<std::string> args,
                                            const std::string& text = "") {
    if (!text.empty()) {
      std::ofstream(file_) << text;
      args.insert(args.end(), {"--config", file_});
    }
    auto parsed = ParseConfig(args);
    if (!parsed.ok()) return parsed.status();
    return std::get<Config>(*parsed).user_limits;
  }
  void ExpectError(const std::vector<std::string>& args,
                   const std::string& text, const std::string& words) {
    const absl::Status status = Parse(args, text).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(words));
  }

  const std::string file_ =
      testing::TempDir() + "/limits-" + std::to_string(getpid()) + ".toml";
};

TEST_F(UserLimitOptionsTest, NobodyHasLimitsUnlessAsked) {
  EXPECT_EQ(*Parse({}), jobs::LimitSettings());
}

TEST_F(UserLimitOptionsTest, ReadsTheLimitsOfEveryUser) {
  const auto settings =
      Parse({"--limit-queued-jobs", "5", "--limit-upload-bytes", "20GiB",
             "--limit-result-bytes=100", "--limit-priority=-10:0"});
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_EQ(settings->others.queued_jobs, 5);
  EXPECT_EQ(settings->others.upload_bytes, int64_t{20} << 30);
  EXPECT_EQ(settings->others.result_bytes, 100);
  EXPECT_EQ(settings->others.lowest_priority, -10);
  EXPECT_EQ(settings->others.highest_priority, 0);
  EXPECT_TRUE(settings->users.empty());
}

TEST_F(UserLimitOptionsTest, ATableOfAUserReplacesWhatItNames) {
  const auto settings = Parse({}, R"(
limit-queued-jobs = 5
limit-upload-bytes = "1GiB"
[user.ada]
queued-jobs = 50
priority = "-1:9"
[user."bob.b@example.org"]
upload-bytes = "none"
[environment]
HF_HOME = "/srv"
)");
  ASSERT_TRUE(settings.ok()) << settings.status();
  ASSERT_EQ(settings->users.size(), 2u);
  const jobs::UserLimits ada = settings->Of("ada");
  EXPECT_EQ(ada.queued_jobs, 50);
  EXPECT_EQ(ada.upload_bytes, 1 << 30);
  EXPECT_EQ(ada.highest_priority, 9);
  const jobs::UserLimits bob = settings->Of("bob.b@example.org");
  EXPECT_EQ(bob.queued_jobs, 5);
  EXPECT_EQ(bob.upload_bytes, std::nullopt);
  EXPECT_EQ(settings->Of("eve").queued_jobs, 5);
}

TEST_F(UserLimitOptionsTest, TheCommandLineNamesAUserToo) {
  const auto settings = Parse({"--user-limit", "ada:queued-jobs=3",
                               "--user-limit", "ada:upload-bytes=4"});
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_EQ(settings->Of("ada").queued_jobs, 3);
  EXPECT_EQ(settings->Of("ada").upload_bytes, 4);
}

TEST_F(UserLimitOptionsTest, RulesOfRetentionAreOfUsersToo) {
  const auto settings = Parse({"--keep-checkpoints-days", "0.5"}, R"(
keep-days = 30
keep-jobs = 100
[user.ada]
keep-days = "none"
keep-bytes = "20GiB"
)");
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_FALSE(settings->KeepsAll());
  const jobs::KeepRules bob = settings->Of("bob").keep;
  EXPECT_EQ(bob.age, absl::Hours(30 * 24));
  EXPECT_EQ(bob.jobs, 100);
  EXPECT_EQ(bob.bytes, std::nullopt);
  EXPECT_EQ(bob.checkpoint_age, absl::Hours(12));
  const jobs::KeepRules ada = settings->Of("ada").keep;
  EXPECT_EQ(ada.age, std::nullopt);
  EXPECT_EQ(ada.jobs, 100);
  EXPECT_EQ(ada.bytes, int64_t{20} << 30);
  EXPECT_TRUE(Parse({})->KeepsAll());
  EXPECT_FALSE(Parse({"--user-limit", "ada:keep-jobs=0"})->KeepsAll());
  for (const char* option :
       {"--keep-days=-1", "--keep-days=nan", "--keep-jobs=1.5",
        "--keep-bytes=5GB", "--keep-checkpoints-days=1w"}) {
    const std::string text = option;
    ExpectError({text}, "", text.substr(0, text.find('=')) + ": expected");
  }
}

TEST_F(UserLimitOptionsTest, RefusesWhatIsNoLimit) {
  ExpectError({"--limit-queued-jobs", "many"}, "", "--limit-queued-jobs");
  ExpectError({"--limit-priority", "3"}, "", "LOW:HIGH");
  ExpectError({"--user-limit", "ada"}, "", "NAME:KEY=VALUE");
  ExpectError({"--user-limit", "a b:queued-jobs=1"}, "", "no user's name");
  ExpectError({"--user-limit", "ada:queued-jobs=1", "--user-limit",
               "ada:queued-jobs=2"},
              "", "twice");
  ExpectError({}, "[user.ada]\nqueued = 5\n", "'queued' is no limit");
  ExpectError({}, "[user.ada]\nqueued-jobs = -5\n", "ada:queued-jobs");
  ExpectError({}, "[user.ada]\nlisten = \"unix:/x\"\n", "'listen'");
  ExpectError({}, "[user]\nqueued-jobs = 5\n", "user");
  ExpectError({}, "[users.ada]\nqueued-jobs = 5\n", "users");
}

}  // namespace
}  // namespace mpsd
