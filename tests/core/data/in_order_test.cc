// SPDX-License-Identifier: Apache-2.0
#include "core/data/in_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <stdexcept>

#include "absl/time/clock.h"

namespace mpsd::data {
namespace {

TEST(InOrderTest, OutputsComeInTheOrderOfInputs) {
  for (const int threads : {1, 2, 7}) {
    InOrder<int, int> pool(threads, [](int i) {
      // The earlier, the longer.
      absl::SleepFor(absl::Microseconds(200 - i));
      return i * i;
    });
    int pushed = 0, taken = 0;
    while (taken < 200) {
      if (pushed < 200 && !pool.full()) {
        pool.Push(pushed++);
        continue;
      }
      ASSERT_EQ(pool.Take(), taken * taken);
      ++taken;
    }
    EXPECT_TRUE(pool.empty());
  }
}

TEST(InOrderTest, SaysWhenThereIsEnoughToDo) {
  InOrder<int, int> pool(3, [](int i) { return i; });
  int pushed = 0;
  while (!pool.full()) pool.Push(pushed++);
  EXPECT_GE(pushed, 3);
  EXPECT_LE(pushed, 30);
  ASSERT_EQ(pool.Take(), 0);
  EXPECT_FALSE(pool.full());
  EXPECT_FALSE(pool.empty());
}

TEST(InOrderTest, OneThreadIsTheCallers) {
  std::set<std::thread::id> seen;
  InOrder<int, int> pool(1, [&](int i) {
    seen.insert(std::this_thread::get_id());
    return i;
  });
  for (int i = 0; i < 3; ++i) pool.Push(i);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(pool.Take(), i);
  EXPECT_EQ(seen, std::set{std::this_thread::get_id()});
}

TEST(InOrderTest, StartsNoMoreThreadsThanThereIsWork) {
  std::atomic<int> at_once{0}, most{0};
  InOrder<int, int> pool(64, [&](int i) {
    most = std::max(most.load(), ++at_once);
    absl::SleepFor(absl::Milliseconds(1));
    --at_once;
    return i;
  });
  for (int i = 0; i < 3; ++i) pool.Push(i);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(pool.Take(), i);
  EXPECT_LE(most, 3);
}

TEST(InOrderTest, WhatWorkThrowsIsThrownWhereItIsTaken) {
  for (const int threads : {1, 3}) {
    InOrder<int, int> pool(threads, [](int i) {
      if (i == 1) throw std::runtime_error("one");
      return i;
    });
    for (int i = 0; i < 3; ++i) pool.Push(i);
    EXPECT_EQ(pool.Take(), 0);
    EXPECT_THROW(pool.Take(), std::runtime_error);
    EXPECT_EQ(pool.Take(), 2);
  }
}

TEST(InOrderTest, DestroyedWithWorkLeftItDropsIt) {
  // Where the machine holds this thread up, the others may do all there is
  // before the pool ends: that says nothing, and is tried again.
  int least = 100;
  for (int attempt = 0; attempt < 20 && least > 4; ++attempt) {
    std::atomic<int> done{0};
    {
      InOrder<int, int> pool(2, [&](int i) {
        absl::SleepFor(absl::Milliseconds(5));
        ++done;
        return i;
      });
      while (!pool.full()) pool.Push(0);
    }
    const int then = done;
    least = std::min(least, then);
    absl::SleepFor(absl::Milliseconds(20));
    EXPECT_EQ(done, then);
  }
  EXPECT_LE(least, 4);
}

TEST(WorkThreadsTest, AreOneAtLeast) { EXPECT_GE(WorkThreads(), 1); }

}  // namespace
}  // namespace mpsd::data
