// SPDX-License-Identifier: Apache-2.0
#include "server/queued_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace mpsd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Keeps lines; the first waits until it is let go, "bad" throws.
class SlowSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  std::vector<std::string> lines;
  absl::Notification begun, go;

  // The lines so far, while the thread may write more.
  std::vector<std::string> Copy() {
    std::lock_guard<std::mutex> lock(mutex_);
    return lines;
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    const std::string line(message.payload.data(), message.payload.size());
    if (lines.empty()) {
      begun.Notify();
      go.WaitForNotification();
    }
    if (line == "bad") throw spdlog::spdlog_ex("no space left");
    lines.push_back(line);
  }
  void flush_() override {}
};

class QueuedSinkTest : public testing::Test {
 protected:
  std::shared_ptr<SlowSink> slow_ = std::make_shared<SlowSink>();
  std::shared_ptr<QueuedSink> queued_ = std::make_shared<QueuedSink>(slow_, 3);
  spdlog::logger log_{"mpsd", queued_};
};

TEST_F(QueuedSinkTest, NobodyWaitsAndTheOldestLinesGo) {
  log_.info("first");
  slow_->begun.WaitForNotification();
  for (int i = 0; i < 10; ++i) log_.info("line {}", i);
  EXPECT_FALSE(queued_->Drain(absl::Milliseconds(1)));
  slow_->go.Notify();
  EXPECT_TRUE(queued_->Drain(absl::Seconds(30)));
  ASSERT_EQ(slow_->lines.size(), 5u);
  EXPECT_THAT(slow_->lines,
              ElementsAre("first", HasSubstr("7 lines were dropped"), "line 7",
                          "line 8", "line 9"));
  // Said once.
  log_.info("later");
  EXPECT_TRUE(queued_->Drain(absl::Seconds(30)));
  EXPECT_EQ(slow_->lines.back(), "later");
  EXPECT_EQ(slow_->lines.size(), 6u);
}

TEST_F(QueuedSinkTest, ASinkThatThrowsIsGoneOnFrom) {
  slow_->go.Notify();
  log_.info("one");
  log_.info("bad");
  log_.info("two");
  EXPECT_TRUE(queued_->Drain(absl::Seconds(30)));
  EXPECT_THAT(slow_->lines, ElementsAre("one", "two"));
}

TEST_F(QueuedSinkTest, ASinkThatIsStuckDoesNotHoldTheEnd) {
  log_.info("first");
  slow_->begun.WaitForNotification();
  log_.sinks().clear();
  queued_.reset();  // returns
  EXPECT_TRUE(slow_->lines.empty());
  slow_->go.Notify();
}

TEST_F(QueuedSinkTest, DroppedLinesAreCountedRightBeyondTheEndOfTheSink) {
  log_.info("first");
  slow_->begun.WaitForNotification();
  for (int i = 0; i < 10; ++i) log_.info("line {}", i);
  log_.sinks().clear();
  queued_.reset();
  slow_->go.Notify();
  const absl::Time most = absl::Now() + absl::Seconds(30);
  while (slow_->Copy().size() < 5 && absl::Now() < most) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_THAT(slow_->Copy(),
              ElementsAre("first", testing::StartsWith("7 lines were dropped"),
                          "line 7", "line 8", "line 9"));
}

}  // namespace
}  // namespace mpsd
