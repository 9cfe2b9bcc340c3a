// SPDX-License-Identifier: Apache-2.0
#include "client/top_caller.h"

#include <atomic>
#include <utility>

#include "absl/synchronization/notification.h"
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

constexpr absl::Duration kLong = absl::Seconds(60);

Address AddressOf(const std::filesystem::path& socket) {
  return FindAddress(socket.string(), "");
}

// Sleeps, then calls, until it is broken off.
class Sleeper : public Caller {
 public:
  explicit Sleeper(Address address) : Caller(std::move(address)) {
    Start([this] {
      do {
        Sleep(absl::InfiniteDuration());
        ++woken;
      } while (Resume());
      Call call(*this);
      v1::InfoResponse info;
      status = daemon().Info(call.hurried(), v1::InfoRequest(), &info);
    });
  }
  std::atomic<int> woken = 0;
  grpc::Status status;
};

// Follows events, and counts what it is told.
class Events : public Follower {
 public:
  explicit Events(Address address) : Follower(std::move(address)) {
    Start([this] { Run(); });
  }
  ~Events() override {
    Break(true);
    Join();
  }
  // Waits until `count` events have come.
  bool Wait(int count) {
    const absl::Time end = absl::Now() + kLong;
    while (events < count && absl::Now() < end) {
      absl::SleepFor(absl::Milliseconds(1));
    }
    return events >= count;
  }

  std::atomic<int> begun = 0, events = 0, given_up = 0;

 private:
  void Begin(const std::string&) override {
    ++begun;
    last_ = 0;
  }
  grpc::Status Stream(const std::string& id, bool* received) override {
    Call call(*this);
    v1::WatchRequest request;
    request.set_id(id);
    request.set_after_sequence(last_);
    const auto reader = jobs().Watch(call.context(), request);
    v1::JobEvent event;
    while (reader->Read(&event)) {
      *received = true;
      last_ = event.sequence();
      ++events;
    }
    return reader->Finish();
  }
  void GiveUp(const std::string&, const grpc::Status&) override { ++given_up; }

  int64_t last_ = 0;
};

class CallerTest : public ClientTest {
 protected:
  void AddThreeEvents() {
    AddJob(kId, v1::JOB_STATE_RUNNING);
    for (int step = 1; step <= 3; ++step) AddProgress(kId, step, 3);
    data().on_idle = [] {};
    daemon_->Sync();
  }
};

TEST_F(CallerTest, PausesAndCallsAreBrokenOff) {
  Sleeper sleeper(AddressOf(socket_));
  sleeper.Break(false);
  const absl::Time end = absl::Now() + kLong;
  while (sleeper.woken == 0 && absl::Now() < end) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_EQ(sleeper.woken, 1);
  sleeper.Break(true);
  sleeper.Join();
  EXPECT_EQ(sleeper.status.error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_LT(absl::Now(), end);
}

TEST_F(CallerTest, FollowsAJobAndLeavesAnIdleStream) {
  AddThreeEvents();
  Events events(AddressOf(socket_));
  events.Follow(kId);
  EXPECT_TRUE(events.Wait(3));
  events.Follow("");
  events.Follow(kId);
  EXPECT_TRUE(events.Wait(6));
  EXPECT_GE(events.begun, 2);
}

TEST_F(CallerTest, GoesOnWhereAStreamBroke) {
  AddThreeEvents();
  data().break_watch_at = 2;
  daemon_->Sync();
  Events events(AddressOf(socket_));
  events.Follow(kId);
  EXPECT_TRUE(events.Wait(3));
  daemon_->Kill();
  AddProgress(kId, 4, 4);
  daemon_->Start();
  EXPECT_TRUE(events.Wait(4));
  EXPECT_EQ(events.events, 4);
}

TEST_F(CallerTest, GivesAJobUpThatDoesNotExist) {
  Events events(AddressOf(socket_));
  events.Follow(kId);
  const absl::Time end = absl::Now() + kLong;
  while (events.given_up == 0 && absl::Now() < end) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_EQ(events.given_up, 1);
}

}  // namespace
}  // namespace mpsd::client
