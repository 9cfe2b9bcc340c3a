// SPDX-License-Identifier: Apache-2.0
#include "server/ticker.h"

#include <gtest/gtest.h>

#include <atomic>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"

namespace mpsd {
namespace {

TEST(Ticker, TicksAtTheStartAndWhenPoked) {
  std::atomic<int> ticks = 0;
  Ticker ticker;
  ticker.Start([&] {
    ++ticks;
    return absl::InfiniteFuture();
  });
  ticker.Await([&] { return ticks == 1; });
  ticker.WakeUp();
  ticker.Await([&] { return ticks == 2; });
  EXPECT_EQ(ticks, 2);
}

TEST(Ticker, TicksAgainWhenTheTimeHasCome) {
  std::atomic<int> ticks = 0;
  Ticker ticker;
  ticker.Start([&] {
    ++ticks;
    return absl::Now() + absl::Milliseconds(1);
  });
  ticker.Await([&] { return ticks >= 3; });
  EXPECT_GE(ticks, 3);
}

TEST(Ticker, APokeDuringATickIsNotLost) {
  std::atomic<int> ticks = 0;
  Ticker ticker;
  ticker.Start([&] {
    if (++ticks == 1) ticker.WakeUp();
    return absl::InfiniteFuture();
  });
  ticker.Await([&] { return ticks == 2; });
  EXPECT_EQ(ticks, 2);
}

TEST(Ticker, StopEndsTicksAndWaiters) {
  std::atomic<int> ticks = 0;
  Ticker ticker;
  ticker.WakeUp();  // before it is started
  ticker.Start([&] {
    ++ticks;
    return absl::InfinitePast();
  });
  ticker.Stop();
  const int last = ticks;
  ticker.WakeUp();
  ticker.Await([] { return false; });
  EXPECT_EQ(ticks, last);
}

TEST(Ticker, ATickThatHangsHoldsNobodyForEver) {
  absl::Notification hang;
  std::atomic<bool> done = false;
  Ticker ticker;
  ticker.Start([&] {
    hang.WaitForNotification();
    done = true;
    return absl::InfiniteFuture();
  });
  EXPECT_FALSE(
      ticker.Await([&] { return done.load(); }, absl::Milliseconds(20)));
  hang.Notify();
  EXPECT_TRUE(ticker.Await([&] { return done.load(); }));
}

}  // namespace
}  // namespace mpsd
