// SPDX-License-Identifier: Apache-2.0
#include "server/notify/command_door.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "server/notify/settings.h"

namespace mpsd::notify {
namespace {

using Outcome = Delivery::Outcome;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

class CommandDoorTest : public testing::Test {
 protected:
  CommandDoorTest() {
    notice_.event = "failed";
    notice_.title = "mpsd: job failed";
    notice_.text = "Job \"; do shell script \"rm -rf ~\" failed";
    notice_.body = R"({"event":"failed"})";
  }
  CommandRunner Runner() {
    return [this](const CommandCall& call,
                  const std::atomic<bool>&) -> absl::StatusOr<CommandEnd> {
      calls_.push_back(call);
      return end_;
    };
  }
  Delivery Run(const std::map<std::string, std::string>& environment = {}) {
    CommandDoor door({{"/bin/tell", "me"}, environment}, Runner());
    return door.Deliver(notice_);
  }
  Outcome OutcomeOf(int wait_status) {
    end_ = CommandEnd{wait_status, false, ""};
    return Run().outcome;
  }

  Notice notice_;
  absl::StatusOr<CommandEnd> end_ = CommandEnd();
  std::vector<CommandCall> calls_;
};

TEST_F(CommandDoorTest, GivesTheProgramTheBody) {
  EXPECT_EQ(Run().outcome, Outcome::kSent);
  ASSERT_EQ(calls_.size(), 1u);
  EXPECT_THAT(calls_[0].argv, ElementsAre("/bin/tell", "me"));
  EXPECT_EQ(calls_[0].input, notice_.body);
  EXPECT_EQ(calls_[0].timeout, absl::Seconds(30));
}

TEST_F(CommandDoorTest, HandsOnNoSecretsOfTheEnvironment) {
  Run({{"PATH", "/bin"},
       {"LC_ALL", "C"},
       {"HF_TOKEN", "t"},
       {"MPSD_STATE_DIR", "/s"},
       {"LD_PRELOAD", "/evil.so"}});
  ASSERT_EQ(calls_.size(), 1u);
  EXPECT_THAT(calls_[0].environment,
              UnorderedElementsAre(Pair("PATH", "/bin"), Pair("LC_ALL", "C"),
                                   Pair("MPSD_EVENT", "failed"),
                                   Pair("MPSD_TITLE", notice_.title),
                                   Pair("MPSD_TEXT", notice_.text)));
}

TEST_F(CommandDoorTest, TheEndSaysWhetherItWasSent) {
  EXPECT_EQ(OutcomeOf(0), Outcome::kSent);
  EXPECT_EQ(OutcomeOf(1 << 8), Outcome::kRefused);
  EXPECT_EQ(OutcomeOf(75 << 8), Outcome::kLater);
  EXPECT_EQ(OutcomeOf(9), Outcome::kRefused);
  end_ = CommandEnd{9, true, "partly"};
  const Delivery delivery = Run();
  EXPECT_EQ(delivery.outcome, Outcome::kRefused);
  EXPECT_EQ(delivery.why, "did not end in time and was killed: partly");
  end_ = absl::ResourceExhaustedError("pipe: too many files");
  EXPECT_EQ(Run().outcome, Outcome::kLater);
}

TEST_F(CommandDoorTest, QuotesWhatTheProgramWrote) {
  end_ = CommandEnd{1 << 8, false, "no\x1b[2J\nroom"};
  EXPECT_EQ(Run().why, "exit status 1: no\\x1b[2J\\nroom");
}

TEST_F(CommandDoorTest, NothingRunsOnceItIsInterrupted) {
  CommandDoor door({{"/bin/tell"}, {}}, Runner());
  door.Interrupt();
  EXPECT_EQ(door.Deliver(notice_).outcome, Outcome::kLater);
  EXPECT_THAT(calls_, IsEmpty());
}

// The script is the same whatever the job is called.
TEST_F(CommandDoorTest, TheDesktopsScriptHoldsNoText) {
  DesktopDoor door({{}, {}}, Runner());
  EXPECT_STREQ(door.name(), "desktop");
  EXPECT_EQ(door.Deliver(notice_).outcome, Outcome::kSent);
  ASSERT_EQ(calls_.size(), 1u);
  EXPECT_THAT(calls_[0].argv,
              ElementsAre(kOsascript, "-e", "on run argv", "-e",
                          "display notification (item 2 of argv) with title "
                          "(item 1 of argv)",
                          "-e", "end run", notice_.title, notice_.text));
}

}  // namespace
}  // namespace mpsd::notify
