// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/job_streams.h"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/rpc/hosts.h"
#include "tests/server/rpc/served.h"

namespace mpsd::rpc {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Clock = ClosableStream::Clock;

class CountingStream final : public ClosableStream {
 public:
  void Close(const absl::Status& status) override {
    ++closed;
    why = status;
  }
  void EndIfIdle(Clock::time_point since) override { idle_since = since; }
  int closed = 0;
  absl::Status why;
  Clock::time_point idle_since;
};

access::Caller User(const std::string& user,
                    const std::string& credential = "") {
  access::Caller caller;
  caller.user = user;
  caller.credential = credential;
  return caller;
}

TEST(StreamHost, ClosesTheStreamsThatLive) {
  StreamHost host(1);
  CountingStream stays, leaves;
  ASSERT_TRUE(host.Add(stays, User("ada")).ok());
  ASSERT_TRUE(host.Add(leaves, User("ada")).ok());
  EXPECT_EQ(host.live(), 2);
  host.Remove(leaves);
  host.CloseAll();
  EXPECT_EQ(stays.closed, 1);
  EXPECT_EQ(leaves.closed, 0);
  EXPECT_EQ(host.live(), 1);
  CountingStream late;
  ASSERT_TRUE(host.Add(late, User("ada")).ok());
  EXPECT_EQ(late.closed, 1) << "at once";
}

TEST(StreamHost, TakesSoManyAndSoManyOfAUser) {
  StreamHost host(1, {.streams = 3, .of_a_user = 2}, Barrier());
  CountingStream streams[5];
  ASSERT_TRUE(host.Add(streams[0], User("ada", "token 1")).ok());
  ASSERT_TRUE(host.Add(streams[1], User("ada", "uid 1")).ok());
  absl::Status third = host.Add(streams[2], User("ada"));
  EXPECT_EQ(third.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(third.message()), HasSubstr("of yours"));
  ASSERT_TRUE(host.Add(streams[3], User("bob")).ok());
  absl::Status fourth = host.Add(streams[4], User("eve"));
  EXPECT_EQ(fourth.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(fourth.message()), HasSubstr("3 such streams"));
  host.Remove(streams[2]);  // was not added
  EXPECT_EQ(host.live(), 3);
  host.Remove(streams[0]);
  EXPECT_TRUE(host.Add(streams[2], User("ada")).ok());
}

TEST(StreamHost, EndsWhatIsIdle) {
  const Clock::time_point now = Clock::now();
  CountingStream stream, patient;
  StreamHost host(1, {.idle = absl::Seconds(10)}, Barrier());
  ASSERT_TRUE(host.Add(stream, User("ada")).ok());
  host.EndIdle(now);
  EXPECT_EQ(stream.idle_since, now - std::chrono::seconds(10));
  StreamHost unlimited(1);
  ASSERT_TRUE(unlimited.Add(patient, User("ada")).ok());
  unlimited.EndIdle(now);
  EXPECT_EQ(patient.idle_since, Clock::time_point::min());
}

TEST(StreamHost, ClosesThoseOfACredential) {
  StreamHost host(1);
  CountingStream revoked[2], stays;
  ASSERT_TRUE(host.Add(revoked[0], User("ada", "token 1")).ok());
  ASSERT_TRUE(host.Add(revoked[1], User("ada", "token 1")).ok());
  ASSERT_TRUE(host.Add(stays, User("ada", "token 2")).ok());
  EXPECT_EQ(host.CloseOf("token 1"), 2);
  EXPECT_EQ(host.CloseOf("token"), 0);
  EXPECT_EQ(revoked[1].why.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(stays.closed, 0);
}

class WatchSourceTest : public testing::Test {
 protected:
  WatchSourceTest() { manager_.Put("a", jobs::State::kRunning); }
  std::unique_ptr<Source<v1::JobEvent>> Watch(const std::string& id,
                                              int64_t after) {
    auto request = ById<v1::WatchRequest>(id);
    request.set_after_sequence(after);
    return MakeWatchSource(manager_, request, [this] { ++wakes_; });
  }
  // The sequences up to the first kWait or kEnd, which `last_` keeps.
  std::vector<int64_t> Drain(Source<v1::JobEvent>& source) {
    std::vector<int64_t> sequences;
    while (true) {
      v1::JobEvent event;
      absl::StatusOr<Pull> pulled = source.Next(event);
      EXPECT_TRUE(pulled.ok()) << pulled.status();
      last_ = pulled.value_or(Pull::kEnd);
      if (last_ != Pull::kMessage) return sequences;
      sequences.push_back(event.sequence());
    }
  }

  FakeManager manager_;
  std::atomic<int> wakes_{0};
  Pull last_ = Pull::kMessage;
};

TEST_F(WatchSourceTest, StoredEventsThenThoseToCome) {
  manager_.AppendProgress("a", 1);
  manager_.AppendProgress("a", 2);
  auto source = Watch("a", 0);
  EXPECT_THAT(Drain(*source), ElementsAre(1, 2));
  EXPECT_EQ(last_, Pull::kWait);
  const int before = wakes_;
  manager_.AppendProgress("a", 3);
  EXPECT_EQ(wakes_, before + 1);
  EXPECT_THAT(Drain(*source), ElementsAre(3));
  manager_.Append("a", jobs::StateChanged{jobs::State::kSucceeded, ""});
  EXPECT_THAT(Drain(*source), ElementsAre(4));
  EXPECT_EQ(last_, Pull::kEnd);
}

TEST_F(WatchSourceTest, ResumesAfterASequence) {
  for (int i = 1; i <= 2500; ++i) manager_.AppendProgress("a", i);
  auto source = Watch("a", 2497);
  EXPECT_THAT(Drain(*source), ElementsAre(2498, 2499, 2500));
  auto whole = Watch("a", 0);  // over several pages
  EXPECT_EQ(Drain(*whole).size(), 2500u);
  auto beyond = Watch("a", 9999);
  EXPECT_THAT(Drain(*beyond), ElementsAre());
  EXPECT_EQ(last_, Pull::kWait);
}

TEST_F(WatchSourceTest, EndsWithTheFinalStateThatTheJobIsIn) {
  manager_.Append("a", jobs::StateChanged{jobs::State::kQueued, "retry"});
  manager_.Append("a", jobs::StateChanged{jobs::State::kCancelled, ""});
  EXPECT_THAT(Drain(*Watch("a", 0)), ElementsAre(1, 2));
  EXPECT_EQ(last_, Pull::kEnd);
  // It was tried again.
  manager_.Append("a", jobs::StateChanged{jobs::State::kQueued, ""});
  auto again = Watch("a", 0);
  EXPECT_THAT(Drain(*again), ElementsAre(1, 2, 3));
  EXPECT_EQ(last_, Pull::kWait);
  manager_.Append("a", jobs::StateChanged{jobs::State::kSucceeded, ""});
  EXPECT_THAT(Drain(*again), ElementsAre(4));
  EXPECT_EQ(last_, Pull::kEnd);
  EXPECT_THAT(Drain(*Watch("a", 4)), ElementsAre());
  EXPECT_EQ(last_, Pull::kEnd);
}

TEST_F(WatchSourceTest, ErrorsAreTheCallersAndItsEndUnsubscribes) {
  v1::JobEvent event;
  EXPECT_TRUE(absl::IsNotFound(Watch("x", 0)->Next(event).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Watch("", 0)->Next(event).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Watch("x", -1)->Next(event).status()));
  auto source = Watch("a", 0);
  EXPECT_EQ(manager_.subscribers(), 1);
  source.reset();
  EXPECT_EQ(manager_.subscribers(), 0);
}

class LogSourceTest : public testing::Test {
 protected:
  LogSourceTest() {
    manager_.Put("a", jobs::State::kRunning);
    std::filesystem::create_directories(manager_.JobFolder("a"));
  }
  std::unique_ptr<Source<v1::LogChunk>> Logs(const std::string& id, bool follow,
                                             int64_t offset, Wake wake = {}) {
    auto request = ById<v1::LogsRequest>(id);
    request.set_follow(follow);
    request.set_offset_bytes(offset);
    if (!wake) wake = [] {};
    return MakeLogSource(manager_, request, absl::Milliseconds(2), wake);
  }
  void Write(const std::string& text) {
    std::ofstream(manager_.LogPath("a"), std::ios::app) << text;
  }
  // The bytes up to the first kWait or kEnd, which `last_` keeps.
  std::string Drain(Source<v1::LogChunk>& source) {
    std::string bytes;
    while (true) {
      v1::LogChunk chunk;
      absl::StatusOr<Pull> pulled = source.Next(chunk);
      EXPECT_TRUE(pulled.ok()) << pulled.status();
      last_ = pulled.value_or(Pull::kEnd);
      if (last_ != Pull::kMessage) return bytes;
      if (!bytes.empty()) {
        EXPECT_EQ(chunk.offset_bytes(), next_offset_);
      }
      next_offset_ =
          chunk.offset_bytes() + static_cast<int64_t>(chunk.data().size());
      EXPECT_LE(chunk.data().size(), 65536u);
      bytes += chunk.data();
    }
  }

  const std::filesystem::path scratch_ = testing_support::FreshFolder("rpc");
  FakeManager manager_{scratch_};
  Pull last_ = Pull::kMessage;
  int64_t next_offset_ = 0;
};

TEST_F(LogSourceTest, WithoutFollowItEndsWithTheFile) {
  const std::string text = std::string(200'000, 'x') + "0123456789";
  Write(text);
  EXPECT_EQ(Drain(*Logs("a", false, 0)), text);
  EXPECT_EQ(last_, Pull::kEnd);
  EXPECT_EQ(Drain(*Logs("a", false, 200'007)), "789");
  EXPECT_EQ(Drain(*Logs("a", false, 200'010)), "");
  EXPECT_EQ(Drain(*Logs("a", false, 300'000)), "");
}

TEST_F(LogSourceTest, AFollowerWaitsForMoreAndForTheEnd) {
  auto source = Logs("a", true, 0);
  EXPECT_EQ(Drain(*source), "");  // the file is not there yet
  EXPECT_EQ(last_, Pull::kWait);
  Write("one\n");
  EXPECT_EQ(Drain(*source), "one\n");
  EXPECT_EQ(last_, Pull::kWait);
  Write("two\n");
  manager_.Put("a", jobs::State::kFailed);
  EXPECT_EQ(Drain(*source), "two\n");
  EXPECT_EQ(last_, Pull::kEnd);
  EXPECT_EQ(Drain(*Logs("a", true, 0)), "one\ntwo\n") << "it has ended";
  EXPECT_EQ(last_, Pull::kEnd);
}

TEST_F(LogSourceTest, AFollowerIsWokenThoughNobodySaysSo) {
  struct Wakes {
    std::atomic<int> count{0};
    absl::Notification second;
  };
  auto wakes = std::make_shared<Wakes>();
  auto source = Logs("a", true, 0, [wakes] {
    // The fake wakes once at Subscribe; the alarm comes after it.
    if (++wakes->count == 2) wakes->second.Notify();
  });
  EXPECT_EQ(Drain(*source), "");
  EXPECT_TRUE(wakes->second.WaitForNotificationWithTimeout(absl::Minutes(1)));
}

TEST_F(LogSourceTest, ErrorsAreTheCallers) {
  v1::LogChunk chunk;
  for (const char* id : {"x", "../a"}) {
    EXPECT_TRUE(absl::IsNotFound(Logs(id, true, 0)->Next(chunk).status()));
    EXPECT_TRUE(absl::IsNotFound(Logs(id, false, 0)->Next(chunk).status()));
  }
  EXPECT_TRUE(absl::IsInvalidArgument(Logs("", true, 0)->Next(chunk).status()));
  EXPECT_TRUE(
      absl::IsInvalidArgument(Logs("a", true, -1)->Next(chunk).status()));
  EXPECT_EQ(manager_.subscribers(), 0);
}

// The streams over a real channel.
class JobServiceTest : public Served {
 protected:
  JobServiceTest() { manager_.Put("a", jobs::State::kRunning); }
  void End() {
    manager_.Append("a", jobs::StateChanged{jobs::State::kSucceeded, ""});
  }
};

// Its events are gone under a watcher that has not read them all.
TEST_F(JobServiceTest, AWatchOfADeletedJobEnds) {
  for (int i = 1; i <= 3000; ++i) manager_.AppendProgress("a", i);
  grpc::ClientContext context;
  auto reader = Watch(context);
  v1::JobEvent event;
  ASSERT_TRUE(reader->Read(&event));
  manager_.Erase("a");
  while (reader->Read(&event)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(JobServiceTest, AVeryLongErrorArrivesCut) {
  std::string text = "row 7: ";
  for (int i = 0; i < 10'000; ++i) text += "\u00e9\n%";
  for (const std::string& message : {text, std::string(20'000, 'x')}) {
    manager_.OnSubmit([&](const jobs::SubmitRequest&) {
      return absl::InvalidArgumentError(message);
    });
    const grpc::Status status = Submit();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(status.error_message().substr(0, 5), message.substr(0, 5));
  }
}

// A watcher that breaks off and comes again while events come sees each once.
TEST_F(JobServiceTest, WatchResumesWhileEventsCome) {
  constexpr int64_t kEvents = 500;
  std::thread producer([this] {
    for (int64_t i = 1; i < kEvents; ++i) manager_.AppendProgress("a", i);
    End();
  });
  std::vector<int64_t> seen;
  while (seen.empty() || seen.back() != kEvents) {
    grpc::ClientContext context;
    auto reader = Watch(context, "a", seen.empty() ? 0 : seen.back());
    v1::JobEvent event;
    for (int i = 0; i < 50 && reader->Read(&event); ++i) {
      seen.push_back(event.sequence());
    }
    context.TryCancel();
    reader->Finish();
  }
  producer.join();
  ASSERT_EQ(seen.size(), static_cast<size_t>(kEvents));
  for (int64_t i = 0; i < kEvents; ++i) EXPECT_EQ(seen[i], i + 1);
  EXPECT_TRUE(manager_.AwaitSubscribers(0));
}

TEST_F(JobServiceTest, AClientThatVanishesLeavesNothingBehind) {
  manager_.AppendProgress("a", 1);
  for (int i = 0; i < 20; ++i) {
    grpc::ClientContext context;
    auto reader = Watch(context);
    v1::JobEvent event;
    if (i % 2 == 0) {
      ASSERT_TRUE(reader->Read(&event));
    }
    context.TryCancel();
    reader->Finish();
  }
  EXPECT_TRUE(manager_.AwaitSubscribers(0));
  manager_.AppendProgress("a", 2);  // nobody is there to hear it
}

TEST_F(JobServiceTest, ASlowWatcherHoldsUpNobody) {
  constexpr int kEvents = 400;  // with 64 KiB each far more than any window
  for (int i = 1; i < kEvents; ++i) {
    manager_.Append("a", jobs::Note{std::string(64 << 10, 'n')});
  }
  grpc::ClientContext slow_context;
  auto slow = Watch(slow_context);
  v1::JobEvent event;
  ASSERT_TRUE(slow->Read(&event));
  End();
  grpc::ClientContext context;
  auto fast = Watch(context);
  int count = 0;
  while (fast->Read(&event)) ++count;
  EXPECT_EQ(count, kEvents);
  count = 1;
  while (slow->Read(&event)) EXPECT_EQ(event.sequence(), ++count);
  EXPECT_EQ(count, kEvents);
  EXPECT_TRUE(slow->Finish().ok());
}

// One of many watchers on the callback API: no thread of its own either.
class Watcher : public grpc::ClientReadReactor<v1::JobEvent> {
 public:
  Watcher(v1::JobService::Stub& stub, absl::BlockingCounter& done)
      : done_(done) {
    stub.async()->Watch(&context_, &request_, this);
    StartRead(&event_);
    StartCall();
  }
  void OnReadDone(bool ok) override {
    if (!ok) return;
    in_order_ = in_order_ && event_.sequence() == ++count_;
    StartRead(&event_);
  }
  void OnDone(const grpc::Status& status) override {
    status_ = status;
    done_.DecrementCount();
  }
  bool SawAll(int64_t count) const {
    return status_.ok() && in_order_ && count_ == count;
  }

 private:
  absl::BlockingCounter& done_;
  grpc::ClientContext context_;
  const v1::WatchRequest request_ = ById<v1::WatchRequest>("a");
  v1::JobEvent event_;
  grpc::Status status_;
  int64_t count_ = 0;
  bool in_order_ = true;
};

TEST_F(JobServiceTest, TwoHundredWatchersSeeEverything) {
  constexpr int kWatchers = 200, kEvents = 100;
  absl::BlockingCounter done(kWatchers);
  std::vector<std::unique_ptr<Watcher>> watchers;
  for (int i = 0; i < kWatchers; ++i) {
    watchers.push_back(std::make_unique<Watcher>(*jobs_, done));
  }
  ASSERT_TRUE(manager_.AwaitSubscribers(kWatchers));
  for (int i = 1; i < kEvents; ++i) manager_.AppendProgress("a", i);
  End();
  done.Wait();
  for (const auto& watcher : watchers) EXPECT_TRUE(watcher->SawAll(kEvents));
  EXPECT_TRUE(manager_.AwaitSubscribers(0));
}

TEST_F(JobServiceTest, LogsFollowUntilTheJobEnds) {
  std::filesystem::create_directories(manager_.JobFolder("a"));
  std::ofstream log(manager_.LogPath("a"), std::ios::app);
  log << "one\n" << std::flush;
  auto request = ById<v1::LogsRequest>("a");
  request.set_follow(true);
  grpc::ClientContext context;
  auto reader = jobs_->Logs(&context, request);
  v1::LogChunk chunk;
  ASSERT_TRUE(reader->Read(&chunk));
  EXPECT_EQ(chunk.data(), "one\n");
  log << "two\n" << std::flush;  // the worker writes; nobody wakes the stream
  ASSERT_TRUE(reader->Read(&chunk));
  EXPECT_EQ(chunk.data(), "two\n");
  EXPECT_EQ(chunk.offset_bytes(), 4);
  log << "three\n" << std::flush;
  manager_.Put("a", jobs::State::kFailed);
  manager_.WakeAll("a");
  ASSERT_TRUE(reader->Read(&chunk));
  EXPECT_EQ(chunk.data(), "three\n");
  EXPECT_FALSE(reader->Read(&chunk));
  EXPECT_TRUE(reader->Finish().ok());
}

TEST_F(JobServiceTest, AFollowerThatVanishesLeavesNothingBehind) {
  auto request = ById<v1::LogsRequest>("a");
  request.set_follow(true);
  grpc::ClientContext context;
  auto reader = jobs_->Logs(&context, request);
  ASSERT_TRUE(manager_.AwaitSubscribers(1));
  context.TryCancel();
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(manager_.AwaitSubscribers(0));
}

}  // namespace
}  // namespace mpsd::rpc
