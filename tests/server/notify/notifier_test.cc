// SPDX-License-Identifier: Apache-2.0
#include "server/notify/notifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>
#include <deque>
#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "tests/core/status_matchers.h"
#include "tests/fakes/test_store.h"

namespace mpsd::notify {
namespace {

using jobs::State;
using testing::UnorderedElementsAre;

using Outcome = Delivery::Outcome;

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

class CommandRunnerTest : public testing::Test {
 protected:
  CommandRunnerTest() { std::signal(SIGPIPE, SIG_IGN); }
  ~CommandRunnerTest() override { std::signal(SIGPIPE, SIG_DFL); }
  absl::StatusOr<CommandEnd> Run(const std::string& script,
                                 const std::string& input = "",
                                 absl::Duration timeout = absl::Minutes(2)) {
    CommandCall call;
    call.argv = {"/bin/sh", "-c", script, "sh", "an \"argument\"; false"};
    call.environment = {{"PATH", "/usr/bin:/bin"}, {"MPSD_TEXT", "$(false)"}};
    call.input = input;
    call.timeout = timeout;
    return RunCommand(call, interrupted_);
  }

  std::atomic<bool> interrupted_ = false;
};

TEST_F(CommandRunnerTest, PassesInputArgumentsAndEnvironmentAsTheyAre) {
  const auto end =
      Run("cat; echo \"|$1|$MPSD_TEXT|\"; env | wc -l >&2", "{\"a\": 1}\n");
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(end->wait_status, 0);
  EXPECT_FALSE(end->timed_out);
  EXPECT_THAT(end->output,
              HasSubstr("{\"a\": 1}\n|an \"argument\"; false|$(false)|\n"));
}

TEST_F(CommandRunnerTest, TheProgramNeedNotReadItsInput) {
  const auto end = Run("exit 3", std::string(1 << 20, 'x'));
  ASSERT_TRUE(end.ok());
  EXPECT_EQ(WEXITSTATUS(end->wait_status), 3);
}

TEST_F(CommandRunnerTest, KeepsTheBeginningOfWhatAProgramWrites) {
  const auto end = Run("echo first; yes | head -c 3000000; exit 1");
  ASSERT_TRUE(end.ok());
  EXPECT_EQ(WEXITSTATUS(end->wait_status), 1);
  EXPECT_TRUE(end->output.starts_with("first\ny\n"));
  EXPECT_EQ(end->output.size(), 4096u);
}

TEST_F(CommandRunnerTest, KillsTheDeafAtTheTimeout) {
  const absl::Time start = absl::Now();
  const std::string script =
      "trap '' TERM; echo begun; while :; do sleep 1; done";
  absl::Duration timeout = absl::Milliseconds(500);
  auto end = Run(script, "", timeout);
  // A shell on a busy machine may need longer than that for its first words.
  while (end.ok() && end->output.empty() && timeout < absl::Minutes(1)) {
    timeout *= 4;
    end = Run(script, "", timeout);
  }
  ASSERT_TRUE(end.ok());
  EXPECT_TRUE(end->timed_out);
  EXPECT_THAT(end->output, HasSubstr("begun"));
  EXPECT_LT(absl::Now() - start, absl::Minutes(4));
}

TEST_F(CommandRunnerTest, AnInterruptEndsIt) {
  std::thread interrupter([this] {
    absl::SleepFor(absl::Milliseconds(100));
    interrupted_ = true;
  });
  const absl::Time start = absl::Now();
  const auto end = Run("exec sleep 300");
  interrupter.join();
  ASSERT_TRUE(end.ok());
  EXPECT_TRUE(end->timed_out);
  EXPECT_LT(absl::Now() - start, absl::Minutes(1)) << "by the timeout";
}

// A program that leaves a child, which keeps the output open.
TEST_F(CommandRunnerTest, WaitsForTheProgramAlone) {
  const absl::Time start = absl::Now();
  const auto end = Run("sleep 300 & echo $! ; exit 0");
  ASSERT_TRUE(end.ok());
  EXPECT_LT(absl::Now() - start, absl::Minutes(1));
  int pid = 0;
  ASSERT_TRUE(absl::SimpleAtoi(end->output, &pid));
  kill(pid, SIGKILL);
}

class NotifierTest : public testing::Test {
 protected:
  NotifierTest() {
    settings_.command = {"/bin/tell"};
    options_.sender = {"host", "1"};
    options_.interval = options_.idle_interval = absl::Milliseconds(5);
    options_.first_wait = absl::Milliseconds(1);
    options_.longest_wait = absl::Milliseconds(8);
    options_.log = [this](const std::string& line) {
      absl::MutexLock lock(&mutex_);
      lines_.push_back(line);
    };
    options_.count = [this](Result result) {
      absl::MutexLock lock(&mutex_);
      ++results_[result];
    };
    options_.job = [](const std::string& id) -> absl::StatusOr<jobs::Job> {
      if (id == "J13") return absl::DataLossError("unreadable");
      jobs::Job job;
      job.name = "job " + id;
      return job;
    };
    options_.run = [this](const CommandCall& call,
                          const std::atomic<bool>& interrupted)
        -> absl::StatusOr<CommandEnd> {
      while (!interrupted) {
        absl::MutexLock lock(&mutex_);
        if (hangs_) {
          mutex_.AwaitWithTimeout(absl::Condition(&changed_),
                                  absl::Milliseconds(5));
          continue;
        }
        told_.push_back(call.environment.at("MPSD_EVENT"));
        const auto body = nlohmann::json::parse(call.input);
        ids_.push_back(body["id"]);
        if (body.contains("job")) names_.push_back(body["job"]["name"]);
        if (exits_.empty()) return CommandEnd();
        const int status = exits_.front();
        exits_.pop_front();
        return CommandEnd{status << 8, false, "busy"};
      }
      return CommandEnd{9, true, ""};
    };
  }

  std::unique_ptr<Notifier> Start() {
    return std::make_unique<Notifier>(options_, settings_, ends_,
                                      base::Clock::Real());
  }
  bool Await(const std::function<bool()>& holds) {
    absl::MutexLock lock(&mutex_);
    return mutex_.AwaitWithTimeout(absl::Condition(&holds), absl::Minutes(1));
  }
  // Job "JNUMBER" has ended.
  void Add(int64_t number, State state, absl::Time time = absl::Now()) {
    jobs::Job job;
    job.id = absl::StrCat("J", number);
    job.state = state;
    ASSERT_TRUE(
        db_.rows.Insert(job, {job.id, 1, {}, jobs::StateChanged{}}).ok());
    db_.Execute(absl::StrCat("INSERT INTO ended_jobs SELECT ", number,
                             ", number, state, ", absl::ToUnixMicros(time),
                             ", '' FROM jobs WHERE id = '", job.id, "'"));
  }
  bool AwaitCount(int64_t count) {
    const auto there = [this] {
      return db_.Number("SELECT count(*) FROM ended_jobs");
    };
    for (int i = 0; i < 6000 && there() != count; ++i) {
      absl::SleepFor(absl::Milliseconds(10));
    }
    return there() == count;
  }
  bool AwaitNotices(size_t count) {
    return Await([=, this] { return told_.size() >= count; });
  }

  fakes::TestStore db_;
  jobs::EndedJobs ends_{db_.database()};
  Settings settings_;
  Notifier::Options options_;
  absl::Mutex mutex_;
  bool hangs_ = false;
  bool changed_ = false;
  std::deque<int> exits_;  // statuses; then: 0
  std::vector<std::string> told_, ids_, names_, lines_;
  std::map<Result, int> results_;
};

TEST_F(NotifierTest, ReportsTheSelectedTopicsAndForgetsEveryEnd) {
  Add(1, State::kSucceeded);
  Add(2, State::kCancelled);
  Add(13, State::kFailed);
  auto notifier = Start();
  ASSERT_TRUE(AwaitNotices(2));
  EXPECT_TRUE(AwaitCount(0));
  Add(14, State::kFailed);
  ASSERT_TRUE(AwaitNotices(3));
  EXPECT_TRUE(AwaitCount(0));
  notifier.reset();
  EXPECT_THAT(told_, ElementsAre("succeeded", "failed", "failed"));
  EXPECT_THAT(names_, ElementsAre("job J1", "", "job J14"));
  EXPECT_EQ(results_[Result::kSent], 3);
}

TEST_F(NotifierTest, WithoutACommandEndsAreForgottenAndNotReportedLater) {
  settings_.command.clear();
  for (int i = 1; i < 300; ++i) Add(i, State::kFailed);
  auto notifier = Start();
  ASSERT_TRUE(AwaitCount(0));
  settings_.command = {"/bin/tell"};
  notifier = Start();
  Add(300, State::kFailed);
  ASSERT_TRUE(AwaitNotices(1));
  EXPECT_THAT(ids_, ElementsAre("J300-300"));
}

TEST_F(NotifierTest, TriesAgainUntilItIsSentAndLogsOnce) {
  exits_.assign(9, 75);
  Add(1, State::kFailed);
  auto notifier = Start();
  ASSERT_TRUE(AwaitNotices(10));
  EXPECT_TRUE(AwaitCount(0));
  notifier.reset();
  EXPECT_EQ(results_[Result::kSent], 1);
  EXPECT_THAT(lines_,
              ElementsAre("notify-command: notification J1-1 is not delivered "
                          "yet: exit status 75: busy"));
}

// One that is refused, and one after a week without mpsd.
TEST_F(NotifierTest, WhatIsRefusedOrTooOldIsTriedOnce) {
  exits_ = {1, 75};
  Add(1, State::kFailed);
  Add(2, State::kFailed, absl::Now() - absl::Hours(24 * 7));
  auto notifier = Start();
  EXPECT_TRUE(AwaitCount(0));
  notifier.reset();
  EXPECT_THAT(ids_, ElementsAre("J1-1", "J2-2"));
  EXPECT_EQ(results_[Result::kFailed], 2);
  EXPECT_THAT(lines_[0], HasSubstr("is not delivered: exit status 1"));
}

TEST_F(NotifierTest, ANoticeThatWaitsHoldsUpNoOtherAndStaysInTheStore) {
  options_.first_wait = options_.longest_wait = absl::Hours(1);
  options_.most_waiting = 2;
  exits_ = {75};
  for (int i = 1; i <= 4; ++i) Add(i, State::kFailed);
  auto notifier = Start();
  ASSERT_TRUE(AwaitNotices(4));
  EXPECT_TRUE(AwaitCount(1));
  notifier.reset();
  EXPECT_THAT(ids_, ElementsAre("J1-1", "J2-2", "J3-3", "J4-4"));
  EXPECT_EQ(db_.Number("SELECT number FROM ended_jobs"), 1);
}

// A restart in the middle of a delivery.
TEST_F(NotifierTest, AnUndeliveredEndIsReportedByTheNextNotifier) {
  hangs_ = true;
  Add(1, State::kFailed);
  auto notifier = Start();
  absl::SleepFor(absl::Milliseconds(50));
  const absl::Time start = absl::Now();
  notifier.reset();
  EXPECT_LT(absl::Now() - start, absl::Minutes(1));
  EXPECT_TRUE(AwaitCount(1));
  hangs_ = false;
  notifier = Start();
  ASSERT_TRUE(AwaitNotices(1));
  EXPECT_THAT(ids_, ElementsAre("J1-1"));
  EXPECT_TRUE(AwaitCount(0));
}

TEST_F(NotifierTest, AFullDiskRepeatsNoNotice) {
  Add(1, State::kFailed);
  db_.FillDisk();
  auto notifier = Start();
  ASSERT_TRUE(AwaitNotices(1));
  absl::SleepFor(absl::Milliseconds(50));
  db_.FreeDisk();
  EXPECT_TRUE(AwaitCount(0));
  notifier.reset();
  EXPECT_THAT(ids_, ElementsAre("J1-1"));
}

TEST_F(NotifierTest, ReportsOnlyTheSelectedTopics) {
  settings_.topics = {State::kCancelled};
  auto notifier = Start();
  Add(1, State::kFailed);
  absl::SleepFor(absl::Milliseconds(50));
  Add(2, State::kCancelled);
  ASSERT_TRUE(AwaitNotices(1));
  notifier.reset();
  EXPECT_THAT(told_, ElementsAre("cancelled"));
}

TEST_F(NotifierTest, ATestReachesTheCommand) {
  EXPECT_EQ(SendTest(settings_, {"host", "1"}, {}, options_.run).outcome,
            Delivery::Outcome::kSent);
  exits_ = {1};
  EXPECT_EQ(SendTest(settings_, {"host", "1"}, {}, options_.run).outcome,
            Delivery::Outcome::kRefused);
  EXPECT_THAT(told_, ElementsAre("test", "test"));
}

}  // namespace
}  // namespace mpsd::notify
