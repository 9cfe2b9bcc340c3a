// SPDX-License-Identifier: Apache-2.0
#include "server/notify/door_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace mpsd::notify {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// What the test and the door share.
struct Script {
  absl::Mutex mutex;
  std::deque<Delivery> deliveries;  // then: sent
  std::vector<std::string> tried;   // ids
  std::vector<std::pair<std::string, Result>> results;
  std::vector<std::string> lines;
  int done = 0;
  bool hangs = false;  // until the door is interrupted
  bool interrupted = false;

  bool Await(const std::function<bool()>& holds) {
    absl::MutexLock lock(&mutex);
    return mutex.AwaitWithTimeout(absl::Condition(&holds), absl::Minutes(1));
  }
};

class ScriptedDoor final : public Door {
 public:
  explicit ScriptedDoor(Script& script) : script_(script) {}
  const char* name() const override { return "webhook"; }
  Delivery Deliver(const Notice& notice) override {
    absl::MutexLock lock(&script_.mutex);
    script_.tried.push_back(notice.id);
    const auto let_go = [this] {
      return !script_.hangs || script_.interrupted;
    };
    script_.mutex.Await(absl::Condition(&let_go));
    if (script_.interrupted) return Delivery::Later("mpsd stops");
    if (script_.deliveries.empty()) return Delivery::Sent();
    Delivery delivery = script_.deliveries.front();
    script_.deliveries.pop_front();
    return delivery;
  }
  void Interrupt() override {
    absl::MutexLock lock(&script_.mutex);
    script_.interrupted = true;
  }

 private:
  Script& script_;
};

class DoorQueueTest : public testing::Test {
 protected:
  DoorQueueTest() {
    options_.first_wait = absl::Milliseconds(1);
    options_.longest_wait = absl::Milliseconds(8);
    options_.log = [this](const std::string& line) {
      absl::MutexLock lock(&script_.mutex);
      script_.lines.push_back(line);
    };
    options_.count = [this](const char* door, Result result) {
      absl::MutexLock lock(&script_.mutex);
      script_.results.push_back({door, result});
    };
  }
  std::unique_ptr<DoorQueue> Open() {
    return std::make_unique<DoorQueue>(
        options_, std::make_unique<ScriptedDoor>(script_), base::Clock::Real());
  }
  DoorQueue::Entry EntryOf(const std::string& id,
                           absl::Time time = absl::Now()) {
    DoorQueue::Entry entry;
    entry.notice.id = id;
    entry.notice.time = time;
    entry.done = [this] {
      absl::MutexLock lock(&script_.mutex);
      ++script_.done;
    };
    return entry;
  }
  bool AwaitDone(int count) {
    return script_.Await([=, this] { return script_.done == count; });
  }

  DoorQueue::Options options_;
  Script script_;
};

TEST_F(DoorQueueTest, SendsInOrder) {
  auto queue = Open();
  queue->Put(EntryOf("a"));
  queue->Put(EntryOf("b"));
  ASSERT_TRUE(AwaitDone(2));
  EXPECT_THAT(script_.tried, ElementsAre("a", "b"));
  EXPECT_THAT(script_.results,
              ElementsAre(std::pair("webhook", Result::kSent),
                          std::pair("webhook", Result::kSent)));
  EXPECT_THAT(script_.lines, IsEmpty());
}

TEST_F(DoorQueueTest, TriesAgainUntilItIsSentAndLogsOnce) {
  for (int i = 0; i < 9; ++i) {
    script_.deliveries.push_back(Delivery::Later("HTTP 503"));
  }
  auto queue = Open();
  queue->Put(EntryOf("a"));
  ASSERT_TRUE(AwaitDone(1));
  EXPECT_THAT(script_.tried, SizeIs(10));
  EXPECT_THAT(script_.results,
              ElementsAre(std::pair("webhook", Result::kSent)));
  ASSERT_THAT(script_.lines, SizeIs(1));
  EXPECT_EQ(script_.lines[0],
            "webhook: notification a is not delivered yet: HTTP 503");
}

TEST_F(DoorQueueTest, WhatIsRefusedIsNotTriedAgain) {
  script_.deliveries.push_back(Delivery::Refused("HTTP 404"));
  auto queue = Open();
  queue->Put(EntryOf("a"));
  ASSERT_TRUE(AwaitDone(1));
  EXPECT_THAT(script_.tried, SizeIs(1));
  EXPECT_THAT(script_.results,
              ElementsAre(std::pair("webhook", Result::kFailed)));
  EXPECT_THAT(script_.lines[0], HasSubstr("is not delivered: HTTP 404"));
}

// After a week without mpsd.
TEST_F(DoorQueueTest, WhatIsTooOldIsTriedOnce) {
  script_.deliveries.push_back(Delivery::Later("down"));
  auto queue = Open();
  queue->Put(EntryOf("a", absl::Now() - absl::Hours(24 * 7)));
  ASSERT_TRUE(AwaitDone(1));
  EXPECT_THAT(script_.tried, SizeIs(1));
  EXPECT_THAT(script_.results,
              ElementsAre(std::pair("webhook", Result::kFailed)));
}

TEST_F(DoorQueueTest, ANoticeThatWaitsHoldsUpNoOther) {
  Delivery later = Delivery::Later("busy");
  later.wait = absl::Hours(1);
  script_.deliveries.push_back(later);
  auto queue = Open();
  queue->Put(EntryOf("slow"));
  queue->Put(EntryOf("quick"));
  ASSERT_TRUE(AwaitDone(1));
  EXPECT_THAT(script_.tried, ElementsAre("slow", "quick"));
  const std::list<DoorQueue::Entry> left = queue->Stop();
  ASSERT_THAT(left, SizeIs(1));
  EXPECT_EQ(left.front().notice.id, "slow");
  EXPECT_EQ(script_.done, 1);
}

TEST_F(DoorQueueTest, DropsWhatItHasNoRoomForAndSaysSo) {
  script_.hangs = true;
  options_.most_waiting = 2;
  auto queue = Open();
  queue->Put(EntryOf("under way"));
  ASSERT_TRUE(script_.Await([this] { return !script_.tried.empty(); }));
  for (const char* id : {"a", "b", "c"}) queue->Put(EntryOf(id));
  EXPECT_EQ(script_.done, 1);
  EXPECT_THAT(script_.results,
              ElementsAre(std::pair("webhook", Result::kDropped)));
  EXPECT_EQ(script_.lines.at(0), "webhook: notification c dropped: 2 wait");
  // The queue's end interrupts the door, and neither counts nor forgets.
  const std::list<DoorQueue::Entry> left = queue->Stop();
  EXPECT_THAT(left, SizeIs(3));
  EXPECT_EQ(left.front().notice.id, "under way");
  EXPECT_EQ(script_.done, 1);
  EXPECT_THAT(script_.results, SizeIs(1));
}

TEST_F(DoorQueueTest, StopsTwice) {
  auto queue = Open();
  EXPECT_THAT(queue->Stop(), IsEmpty());
  EXPECT_THAT(queue->Stop(), IsEmpty());
}

}  // namespace
}  // namespace mpsd::notify
