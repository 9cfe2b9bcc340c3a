// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/stream_host.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mpsd::rpc {
namespace {

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
}

TEST(StreamHost, ClosesALateStreamAtOnce) {
  StreamHost host(1);
  host.CloseAll();
  CountingStream late;
  ASSERT_TRUE(host.Add(late, User("ada")).ok());
  EXPECT_EQ(late.closed, 1);
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

}  // namespace
}  // namespace mpsd::rpc
