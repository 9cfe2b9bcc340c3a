// SPDX-License-Identifier: Apache-2.0
#include "server/notify/delivery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"

namespace mpsd::notify {
namespace {

using Outcome = Delivery::Outcome;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;
using testing::UnorderedElementsAre;

class CommandTest : public testing::Test {
 protected:
  CommandTest() {
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
    Command command({{"/bin/tell", "me"}, environment}, Runner());
    return command.Deliver(notice_);
  }
  Outcome OutcomeOf(int wait_status) {
    end_ = CommandEnd{wait_status, false, ""};
    return Run().outcome;
  }

  Notice notice_;
  absl::StatusOr<CommandEnd> end_ = CommandEnd();
  std::vector<CommandCall> calls_;
};

TEST_F(CommandTest, GivesTheProgramTheBodyAndNoSecretOfTheEnvironment) {
  EXPECT_EQ(Run({{"PATH", "/bin"},
                 {"LC_ALL", "C"},
                 {"HF_TOKEN", "t"},
                 {"MPSD_STATE_DIR", "/s"},
                 {"LD_PRELOAD", "/evil.so"}})
                .outcome,
            Outcome::kSent);
  ASSERT_EQ(calls_.size(), 1u);
  EXPECT_THAT(calls_[0].argv, ElementsAre("/bin/tell", "me"));
  EXPECT_EQ(calls_[0].input, notice_.body);
  EXPECT_EQ(calls_[0].timeout, absl::Seconds(30));
  EXPECT_THAT(calls_[0].environment,
              UnorderedElementsAre(Pair("PATH", "/bin"), Pair("LC_ALL", "C"),
                                   Pair("MPSD_EVENT", "failed"),
                                   Pair("MPSD_TITLE", notice_.title),
                                   Pair("MPSD_TEXT", notice_.text)));
}

TEST_F(CommandTest, TheEndSaysWhetherItWasSent) {
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
  end_ = CommandEnd{1 << 8, false, "no\x1b[2J\nroom"};
  EXPECT_EQ(Run().why, "exit status 1: no\\x1b[2J\\nroom");
}

TEST_F(CommandTest, NothingRunsOnceItIsInterrupted) {
  Command command({{"/bin/tell"}, {}}, Runner());
  command.Interrupt();
  EXPECT_EQ(command.Deliver(notice_).outcome, Outcome::kLater);
  EXPECT_THAT(calls_, IsEmpty());
}

class NoticeQueueTest : public testing::Test {
 protected:
  NoticeQueueTest() {
    options_.first_wait = absl::Milliseconds(1);
    options_.longest_wait = absl::Milliseconds(8);
    options_.log = [this](const std::string& line) {
      absl::MutexLock lock(&mutex_);
      lines_.push_back(line);
    };
    options_.count = [this](Result result) {
      absl::MutexLock lock(&mutex_);
      results_.push_back(result);
    };
  }
  std::unique_ptr<NoticeQueue> Open() {
    Command::Options command;
    command.argv = {"/bin/tell"};
    return std::make_unique<NoticeQueue>(
        options_, command,
        [this](const CommandCall& call, const std::atomic<bool>& interrupted) {
          return Run(call, interrupted);
        },
        base::Clock::Real());
  }
  CommandEnd Run(const CommandCall& call,
                 const std::atomic<bool>& interrupted) {
    bool hangs = false;
    {
      absl::MutexLock lock(&mutex_);
      tried_.push_back(call.input);
      hangs = hangs_;
    }
    while (hangs && !interrupted) absl::SleepFor(absl::Milliseconds(1));
    if (interrupted) return {9, true, ""};
    absl::MutexLock lock(&mutex_);
    if (exits_.empty()) return {};
    const int status = exits_.front();
    exits_.pop_front();
    return {status << 8, false, "busy"};
  }
  NoticeQueue::Entry EntryOf(const std::string& id,
                             absl::Time time = absl::Now()) {
    NoticeQueue::Entry entry;
    entry.notice.id = entry.notice.body = id;
    entry.notice.time = time;
    entry.done = [this] {
      absl::MutexLock lock(&mutex_);
      ++done_;
    };
    return entry;
  }
  bool Await(const std::function<bool()>& holds) {
    absl::MutexLock lock(&mutex_);
    return mutex_.AwaitWithTimeout(absl::Condition(&holds), absl::Minutes(1));
  }
  bool AwaitDone(int count) {
    return Await([=, this] { return done_ == count; });
  }

  NoticeQueue::Options options_;
  absl::Mutex mutex_;
  std::deque<int> exits_;           // statuses; then: 0
  std::vector<std::string> tried_;  // ids
  std::vector<Result> results_;
  std::vector<std::string> lines_;
  int done_ = 0;
  bool hangs_ = false;  // until the command is interrupted
};

TEST_F(NoticeQueueTest, SendsInOrder) {
  auto queue = Open();
  queue->Put(EntryOf("a"));
  queue->Put(EntryOf("b"));
  ASSERT_TRUE(AwaitDone(2));
  EXPECT_THAT(tried_, ElementsAre("a", "b"));
  EXPECT_THAT(results_, ElementsAre(Result::kSent, Result::kSent));
  EXPECT_THAT(lines_, IsEmpty());
  EXPECT_THAT(queue->Stop(), IsEmpty());
  EXPECT_THAT(queue->Stop(), IsEmpty());
}

TEST_F(NoticeQueueTest, TriesAgainUntilItIsSentAndLogsOnce) {
  exits_.assign(9, 75);
  auto queue = Open();
  queue->Put(EntryOf("a"));
  ASSERT_TRUE(AwaitDone(1));
  EXPECT_THAT(tried_, SizeIs(10));
  EXPECT_THAT(results_, ElementsAre(Result::kSent));
  EXPECT_THAT(lines_,
              ElementsAre("notify-command: notification a is not delivered "
                          "yet: exit status 75: busy"));
}

TEST_F(NoticeQueueTest, WhatIsRefusedIsNotTriedAgain) {
  exits_ = {1};
  auto queue = Open();
  queue->Put(EntryOf("a"));
  ASSERT_TRUE(AwaitDone(1));
  EXPECT_THAT(tried_, SizeIs(1));
  EXPECT_THAT(results_, ElementsAre(Result::kFailed));
  EXPECT_THAT(lines_[0], HasSubstr("is not delivered: exit status 1"));
}

// After a week without mpsd.
TEST_F(NoticeQueueTest, WhatIsTooOldIsTriedOnce) {
  exits_ = {75};
  auto queue = Open();
  queue->Put(EntryOf("a", absl::Now() - absl::Hours(24 * 7)));
  ASSERT_TRUE(AwaitDone(1));
  EXPECT_THAT(tried_, SizeIs(1));
  EXPECT_THAT(results_, ElementsAre(Result::kFailed));
}

TEST_F(NoticeQueueTest, ANoticeThatWaitsHoldsUpNoOther) {
  options_.first_wait = options_.longest_wait = absl::Hours(1);
  exits_ = {75};
  auto queue = Open();
  queue->Put(EntryOf("slow"));
  queue->Put(EntryOf("quick"));
  ASSERT_TRUE(AwaitDone(1));
  EXPECT_THAT(tried_, ElementsAre("slow", "quick"));
  const std::list<NoticeQueue::Entry> left = queue->Stop();
  ASSERT_THAT(left, SizeIs(1));
  EXPECT_EQ(left.front().notice.id, "slow");
  EXPECT_EQ(done_, 1);
}

TEST_F(NoticeQueueTest, DropsWhatItHasNoRoomForAndSaysSo) {
  hangs_ = true;
  options_.most_waiting = 2;
  auto queue = Open();
  queue->Put(EntryOf("under way"));
  ASSERT_TRUE(Await([this] { return !tried_.empty(); }));
  for (const char* id : {"a", "b", "c"}) queue->Put(EntryOf(id));
  EXPECT_EQ(done_, 1);
  EXPECT_THAT(results_, ElementsAre(Result::kDropped));
  EXPECT_EQ(lines_.at(0), "notify-command: notification c dropped: 2 wait");
  // The queue's end interrupts the command, and neither counts nor forgets.
  const std::list<NoticeQueue::Entry> left = queue->Stop();
  EXPECT_THAT(left, SizeIs(3));
  EXPECT_EQ(left.front().notice.id, "under way");
  EXPECT_EQ(done_, 1);
  EXPECT_THAT(results_, SizeIs(1));
}

}  // namespace
}  // namespace mpsd::notify
