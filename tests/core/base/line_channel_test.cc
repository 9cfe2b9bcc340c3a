// SPDX-License-Identifier: Apache-2.0
#include "core/base/line_channel.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <set>
#include <thread>
#include <vector>

namespace mpsd::base {
namespace {

class LineChannelTest : public testing::Test {
 protected:
  void SetUp() override {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    a_ = std::make_unique<LineChannel>(ends[0]);
    b_ = std::make_unique<LineChannel>(ends[1]);
  }
  std::unique_ptr<LineChannel> a_, b_;
};

TEST_F(LineChannelTest, LinesComeOutAsTheyWentIn) {
  ASSERT_TRUE(a_->Send("one").ok());
  ASSERT_TRUE(a_->Send("").ok());
  ASSERT_TRUE(a_->Send("three").ok());
  EXPECT_EQ(**b_->Receive(), "one");
  EXPECT_EQ(**b_->Receive(), "");
  EXPECT_EQ(**b_->Receive(), "three");
}

TEST_F(LineChannelTest, ALineOfSeveralMegabytesPasses) {
  const std::string line(5 << 20, 'x');
  std::thread sender([&] { EXPECT_TRUE(a_->Send(line).ok()); });
  auto received = b_->Receive();
  sender.join();
  ASSERT_TRUE(received.ok());
  EXPECT_EQ(**received, line);
}

TEST_F(LineChannelTest, ALineOverTheLimitIsRefused) {
  std::thread sender([&] {
    a_->Send(std::string(LineChannel::kMaxLine + 2, 'x')).IgnoreError();
  });
  EXPECT_EQ(b_->Receive().status().code(), absl::StatusCode::kInvalidArgument);
  b_.reset();  // frees the sender
  sender.join();
}

TEST_F(LineChannelTest, NewlinesInsideALineAreRefused) {
  EXPECT_EQ(a_->Send("a\nb").code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(LineChannelTest, EndOfStreamAfterTheLastWholeLine) {
  ASSERT_TRUE(a_->Send("whole").ok());
  ASSERT_EQ(write(a_->fd(), "cut", 3), 3);
  a_.reset();
  EXPECT_EQ(**b_->Receive(), "whole");
  EXPECT_EQ(*b_->Receive(), std::nullopt);
}

TEST_F(LineChannelTest, ReceiveGivesUpAfterItsTimeout) {
  EXPECT_EQ(b_->Receive(absl::ZeroDuration()).status().code(),
            absl::StatusCode::kDeadlineExceeded);
}

TEST_F(LineChannelTest, SendingToNobodyIsUnavailableAndNoSignal) {
  b_.reset();
  EXPECT_EQ(a_->Send("x").code(), absl::StatusCode::kUnavailable);
}

TEST_F(LineChannelTest, LinesOfSeveralSendersDoNotMix) {
  constexpr int kEach = 200;
  std::vector<std::thread> senders;
  for (const std::string& text :
       {std::string(3'000, 'a'), std::string(5'000, 'b')}) {
    senders.emplace_back([this, text] {
      for (int i = 0; i < kEach; ++i) ASSERT_TRUE(a_->Send(text).ok());
    });
  }
  std::set<std::string> seen;
  for (int i = 0; i < 2 * kEach; ++i) seen.insert(**b_->Receive());
  for (std::thread& t : senders) t.join();
  EXPECT_EQ(seen, (std::set<std::string>{std::string(3'000, 'a'),
                                         std::string(5'000, 'b')}));
}

}  // namespace
}  // namespace mpsd::base
