// SPDX-License-Identifier: Apache-2.0
#include "client/interrupt.h"

#include <gtest/gtest.h>

namespace mpsd::client {
namespace {

TEST(InterruptTest, WithoutListenerNobodyIsThere) {
  Interrupt interrupt;
  EXPECT_FALSE(interrupt.Raise());
  EXPECT_FALSE(interrupt.raised());
}

TEST(InterruptTest, WakesTheListenerOnce) {
  Interrupt interrupt;
  int woken = 0;
  Interrupt::Listener listener(&interrupt, [&] { ++woken; });
  EXPECT_FALSE(listener.raised());
  EXPECT_TRUE(interrupt.Raise());
  EXPECT_TRUE(listener.raised());
  EXPECT_FALSE(interrupt.Raise()) << "a second Ctrl-C ends the process";
  EXPECT_EQ(woken, 1);
}

TEST(InterruptTest, AListenerThatIsGoneIsNotWoken) {
  Interrupt interrupt;
  int woken = 0;
  {
    Interrupt::Listener listener(&interrupt, [&] { ++woken; });
  }
  EXPECT_FALSE(interrupt.Raise());
  EXPECT_EQ(woken, 0);
}

TEST(InterruptTest, OfTwoTheInnerIsWokenAndThenTheOuterAgain) {
  Interrupt interrupt;
  int outer_woken = 0, inner_woken = 0;
  const Interrupt::Listener outer(&interrupt, [&] { ++outer_woken; });
  {
    const Interrupt::Listener inner(&interrupt, [&] { ++inner_woken; });
  }
  EXPECT_TRUE(interrupt.Raise());
  EXPECT_EQ(outer_woken, 1);
  EXPECT_EQ(inner_woken, 0);
  Interrupt other;
  const Interrupt::Listener first(&other, [&] { ++outer_woken; });
  const Interrupt::Listener second(&other, [&] { ++inner_woken; });
  EXPECT_TRUE(other.Raise());
  EXPECT_EQ(outer_woken, 1);
  EXPECT_EQ(inner_woken, 1);
  EXPECT_TRUE(first.raised()) << "it sees on its own what happened";
}

TEST(InterruptTest, NullIsNeverRaised) {
  Interrupt::Listener listener(nullptr, [] { FAIL(); });
  EXPECT_FALSE(listener.raised());
}

}  // namespace
}  // namespace mpsd::client
