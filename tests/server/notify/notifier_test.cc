// SPDX-License-Identifier: Apache-2.0
#include "server/notify/notifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace mpsd::notify {
namespace {

using jobs::State;
using testing::ElementsAre;

// Ends in memory.
class FakeEnds final : public jobs::EndedJobs {
 public:
  absl::StatusOr<std::vector<jobs::EndedJob>> After(int64_t number,
                                                    int limit) override {
    absl::MutexLock lock(&mutex_);
    std::vector<jobs::EndedJob> found;
    for (const auto& [key, end] : ends_) {
      if (key > number && found.size() < static_cast<size_t>(limit)) {
        found.push_back(end);
      }
    }
    return found;
  }
  absl::Status Forget(int64_t number) override {
    absl::MutexLock lock(&mutex_);
    if (!failure_.ok()) return failure_;
    ends_.erase(number);
    return absl::OkStatus();
  }
  void Add(int64_t number, State state) {
    absl::MutexLock lock(&mutex_);
    ends_[number] = {number, absl::StrCat("J", number), state, absl::Now(), ""};
  }
  void FailWith(absl::Status status) {
    absl::MutexLock lock(&mutex_);
    failure_ = std::move(status);
  }
  bool AwaitCount(size_t count) {
    absl::MutexLock lock(&mutex_);
    const auto holds = [&] { return ends_.size() == count; };
    return mutex_.AwaitWithTimeout(absl::Condition(&holds), absl::Minutes(1));
  }

 private:
  absl::Mutex mutex_;
  std::map<int64_t, jobs::EndedJob> ends_;
  absl::Status failure_;
};

class NotifierTest : public testing::Test {
 protected:
  NotifierTest() {
    settings_.command = {"/bin/tell"};
    settings_.settle = absl::ZeroDuration();
    options_.sender = {"host", "1"};
    options_.interval = options_.idle_interval = absl::Milliseconds(5);
    options_.queue.first_wait = absl::Milliseconds(5);
    options_.queue.count = [this](Result result) {
      absl::MutexLock lock(&mutex_);
      ++results_[result];
    };
    options_.job = [](const std::string& id) -> absl::StatusOr<jobs::Job> {
      if (id == "J13") return absl::DataLossError("unreadable");
      jobs::Job job;
      job.name = "job " + id;
      return job;
    };
    options_.holds = [this] {
      absl::MutexLock lock(&mutex_);
      return holds_;
    };
    options_.free_bytes = [this]() -> std::optional<int64_t> {
      absl::MutexLock lock(&mutex_);
      return free_bytes_;
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
        return CommandEnd{exit_status_ << 8, false, ""};
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
  bool AwaitTold(size_t count) {
    return Await([=, this] { return told_.size() >= count; });
  }
  void Change(const std::function<void()>& change) {
    absl::MutexLock lock(&mutex_);
    change();
  }

  FakeEnds ends_;
  Settings settings_;
  Notifier::Options options_;
  absl::Mutex mutex_;
  jobs::Holds holds_;
  int64_t free_bytes_ = int64_t{1} << 40;
  bool hangs_ = false;
  bool changed_ = false;
  int exit_status_ = 0;
  std::vector<std::string> told_, ids_, names_;
  std::map<Result, int> results_;
};

TEST_F(NotifierTest, TellsWhatWasAskedForAndForgetsEveryEnd) {
  ends_.Add(1, State::kSucceeded);
  ends_.Add(2, State::kCancelled);
  ends_.Add(13, State::kFailed);
  auto notifier = Start();
  ASSERT_TRUE(AwaitTold(2));
  EXPECT_TRUE(ends_.AwaitCount(0));
  ends_.Add(14, State::kFailed);
  ASSERT_TRUE(AwaitTold(3));
  EXPECT_TRUE(ends_.AwaitCount(0));
  notifier.reset();
  EXPECT_THAT(told_, ElementsAre("succeeded", "failed", "failed"));
  EXPECT_THAT(names_, ElementsAre("job J1", "", "job J14"));
  EXPECT_EQ(results_[Result::kSent], 3);
}

TEST_F(NotifierTest, WithoutACommandEndsAreForgottenAndNotReportedLater) {
  settings_.command.clear();
  for (int i = 1; i < 300; ++i) ends_.Add(i, State::kFailed);
  auto notifier = Start();
  ASSERT_TRUE(ends_.AwaitCount(0));
  settings_.command = {"/bin/tell"};
  notifier = Start();
  ends_.Add(300, State::kFailed);
  ASSERT_TRUE(AwaitTold(1));
  EXPECT_THAT(ids_, ElementsAre("J300-300"));
}

// A restart in the middle of a delivery.
TEST_F(NotifierTest, AnEndThatWasNotDeliveredIsToldByTheNextNotifier) {
  hangs_ = true;
  ends_.Add(1, State::kFailed);
  auto notifier = Start();
  absl::SleepFor(absl::Milliseconds(50));
  const absl::Time start = absl::Now();
  notifier.reset();
  EXPECT_LT(absl::Now() - start, absl::Minutes(1));
  EXPECT_TRUE(ends_.AwaitCount(1));
  hangs_ = false;
  notifier = Start();
  ASSERT_TRUE(AwaitTold(1));
  EXPECT_THAT(ids_, ElementsAre("J1-1"));
  EXPECT_TRUE(ends_.AwaitCount(0));
}

TEST_F(NotifierTest, AFullDiskMakesNobodyBeToldTwice) {
  ends_.FailWith(absl::ResourceExhaustedError("disk full"));
  ends_.Add(1, State::kFailed);
  auto notifier = Start();
  ASSERT_TRUE(AwaitTold(1));
  absl::SleepFor(absl::Milliseconds(50));
  ends_.FailWith(absl::OkStatus());
  EXPECT_TRUE(ends_.AwaitCount(0));
  notifier.reset();
  EXPECT_THAT(ids_, ElementsAre("J1-1"));
}

TEST_F(NotifierTest, TellsOfHoldsAndTheDiskAndTheirEnds) {
  auto notifier = Start();
  Change(
      [this] { holds_[jobs::HoldReason::kDevice] = "the self-test failed"; });
  ASSERT_TRUE(AwaitTold(1));
  Change([this] { holds_.clear(); });
  ASSERT_TRUE(AwaitTold(2));
  Change([this] { free_bytes_ = 1; });
  ASSERT_TRUE(AwaitTold(3));
  Change([this] { free_bytes_ = int64_t{1} << 40; });
  ASSERT_TRUE(AwaitTold(4));
  notifier.reset();
  EXPECT_THAT(told_,
              ElementsAre("held", "released", "disk_low", "disk_recovered"));
}

TEST_F(NotifierTest, TellsOnlyOfTheTopicsAskedFor) {
  settings_.topics = {Topic::kCancelled};
  auto notifier = Start();
  Change([this] { holds_[jobs::HoldReason::kDevice] = "broken"; });
  Change([this] { free_bytes_ = 1; });
  ends_.Add(1, State::kFailed);
  absl::SleepFor(absl::Milliseconds(50));
  ends_.Add(2, State::kCancelled);
  ASSERT_TRUE(AwaitTold(1));
  notifier.reset();
  EXPECT_THAT(told_, ElementsAre("cancelled"));
}

TEST_F(NotifierTest, ATestReachesTheCommand) {
  EXPECT_EQ(SendTest(settings_, {"host", "1"}, {}, options_.run).outcome,
            Delivery::Outcome::kSent);
  exit_status_ = 1;
  EXPECT_EQ(SendTest(settings_, {"host", "1"}, {}, options_.run).outcome,
            Delivery::Outcome::kRefused);
  EXPECT_THAT(told_, ElementsAre("test", "test"));
}

}  // namespace
}  // namespace mpsd::notify
