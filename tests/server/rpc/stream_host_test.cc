// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/stream_host.h"

#include "gtest/gtest.h"

namespace mpsd::rpc {
namespace {

class CountingStream final : public ClosableStream {
 public:
  void Close() override { ++closed; }
  int closed = 0;
};

TEST(StreamHost, ClosesTheStreamsThatLive) {
  StreamHost host(1);
  CountingStream stays, leaves;
  host.Add(stays);
  host.Add(leaves);
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
  host.Add(late);
  EXPECT_EQ(late.closed, 1);
}

}  // namespace
}  // namespace mpsd::rpc
