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
  void Close() override { ++closed; }
  void EndIfIdle(Clock::time_point since) override { idle_since = since; }
  int closed = 0;
  Clock::time_point idle_since;
};

TEST(StreamHost, ClosesTheStreamsThatLive) {
  StreamHost host(1);
  CountingStream stays, leaves;
  ASSERT_TRUE(host.Add(stays, "unix:").ok());
  ASSERT_TRUE(host.Add(leaves, "unix:").ok());
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
  ASSERT_TRUE(host.Add(late, "unix:").ok());
  EXPECT_EQ(late.closed, 1);
}

TEST(StreamHost, TakesSoManyAndSoManyOfAMachine) {
  StreamHost host(1, {.streams = 3, .of_a_peer = 2}, Barrier());
  CountingStream streams[5];
  ASSERT_TRUE(host.Add(streams[0], "ipv4:10.0.0.1:1").ok());
  ASSERT_TRUE(host.Add(streams[1], "ipv4:10.0.0.1:2").ok());
  absl::Status third = host.Add(streams[2], "ipv4:10.0.0.1:3");
  EXPECT_EQ(third.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(third.message()), HasSubstr("your machine"));
  ASSERT_TRUE(host.Add(streams[3], "ipv6:[::1]:3").ok());
  absl::Status fourth = host.Add(streams[4], "unix:");
  EXPECT_EQ(fourth.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(fourth.message()), HasSubstr("3 such transfers"));
  host.Remove(streams[2]);  // was not added
  EXPECT_EQ(host.live(), 3);
  host.Remove(streams[0]);
  EXPECT_TRUE(host.Add(streams[2], "ipv4:10.0.0.1:9").ok());
}

TEST(StreamHost, EndsWhatIsIdle) {
  const Clock::time_point now = Clock::now();
  CountingStream stream, patient;
  StreamHost host(1, {.idle = absl::Seconds(10)}, Barrier());
  ASSERT_TRUE(host.Add(stream, "unix:").ok());
  host.EndIdle(now);
  EXPECT_EQ(stream.idle_since, now - std::chrono::seconds(10));
  StreamHost unlimited(1);
  ASSERT_TRUE(unlimited.Add(patient, "unix:").ok());
  unlimited.EndIdle(now);
  EXPECT_EQ(patient.idle_since, Clock::time_point());
}

}  // namespace
}  // namespace mpsd::rpc
